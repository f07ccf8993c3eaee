package cudasim

import (
	"strings"

	"github.com/colligo-go/colligo/cuda"
)

// Results beside those of package cuda, numbered as CUresult.
const (
	notInitialized              cuda.Result = 3
	deinitialized               cuda.Result = 4
	invalidDevice               cuda.Result = 101
	mapFailed                   cuda.Result = 205
	alreadyMapped               cuda.Result = 208
	noBinaryForGPU              cuda.Result = 209
	peerAccessUnsupported       cuda.Result = 217
	illegalState                cuda.Result = 401
	illegalAddress              cuda.Result = 700
	launchTimeout               cuda.Result = 702
	misalignedAddress           cuda.Result = 716
	peerAccessNotEnabled        cuda.Result = 705
	hostMemoryAlreadyRegistered cuda.Result = 712
	hostMemoryNotRegistered     cuda.Result = 713
	launchFailed                cuda.Result = 719
	captureInvalidated          cuda.Result = 901
	captureMerge                cuda.Result = 902
	captureUnmatched            cuda.Result = 903
	captureUnjoined             cuda.Result = 904
	captureIsolation            cuda.Result = 905
	captureImplicit             cuda.Result = 906
	capturedEvent               cuda.Result = 907
	captureWrongThread          cuda.Result = 908
)

var resultNames = map[cuda.Result]string{
	cuda.Success: "SUCCESS", cuda.InvalidValue: "INVALID_VALUE", cuda.OutOfMemory: "OUT_OF_MEMORY",
	notInitialized: "NOT_INITIALIZED", deinitialized: "DEINITIALIZED", cuda.NoDevice: "NO_DEVICE",
	invalidDevice: "INVALID_DEVICE", cuda.InvalidImage: "INVALID_IMAGE", cuda.InvalidContext: "INVALID_CONTEXT",
	mapFailed: "MAP_FAILED", alreadyMapped: "ALREADY_MAPPED", noBinaryForGPU: "NO_BINARY_FOR_GPU",
	peerAccessUnsupported: "PEER_ACCESS_UNSUPPORTED", cuda.InvalidPTX: "INVALID_PTX",
	cuda.UnsupportedPTXVersion: "UNSUPPORTED_PTX_VERSION", cuda.InvalidHandle: "INVALID_HANDLE",
	illegalState: "ILLEGAL_STATE", cuda.NotFound: "NOT_FOUND", cuda.NotReady: "NOT_READY",
	illegalAddress: "ILLEGAL_ADDRESS", misalignedAddress: "MISALIGNED_ADDRESS", launchTimeout: "LAUNCH_TIMEOUT",
	cuda.PeerAccessAlreadyEnabled: "PEER_ACCESS_ALREADY_ENABLED", peerAccessNotEnabled: "PEER_ACCESS_NOT_ENABLED",
	hostMemoryAlreadyRegistered: "HOST_MEMORY_ALREADY_REGISTERED", hostMemoryNotRegistered: "HOST_MEMORY_NOT_REGISTERED",
	launchFailed: "LAUNCH_FAILED", cuda.NotSupported: "NOT_SUPPORTED",
	cuda.StreamCaptureUnsupported: "STREAM_CAPTURE_UNSUPPORTED", captureInvalidated: "STREAM_CAPTURE_INVALIDATED",
	captureMerge: "STREAM_CAPTURE_MERGE", captureUnmatched: "STREAM_CAPTURE_UNMATCHED",
	captureUnjoined: "STREAM_CAPTURE_UNJOINED", captureIsolation: "STREAM_CAPTURE_ISOLATION",
	captureImplicit: "STREAM_CAPTURE_IMPLICIT", capturedEvent: "CAPTURED_EVENT",
	captureWrongThread: "STREAM_CAPTURE_WRONG_THREAD",
}

func resultName(r cuda.Result) string {
	n, ok := resultNames[r]
	switch {
	case r == cuda.Success:
		return "CUDA_SUCCESS"
	case !ok:
		return "unknown to the driver"
	}
	return "CUDA_ERROR_" + n
}

// resultText is the name in words: the driver's own texts say little more.
func resultText(r cuda.Result) string {
	if n, ok := resultNames[r]; ok {
		return strings.ReplaceAll(strings.ToLower(n), "_", " ")
	}
	return "unknown to the driver"
}
