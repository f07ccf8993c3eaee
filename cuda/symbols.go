package cuda

import (
	"fmt"
	"strings"
)

// A symbol is a function of the driver's library.
type symbol int

const (
	cuGetErrorName symbol = iota
	cuGetErrorString
	cuInit
	cuDriverGetVersion
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetUuid
	cuDeviceGetPCIBusId
	cuDeviceTotalMem
	cuDeviceGetAttribute
	cuDeviceCanAccessPeer
	cuDeviceGetP2PAttribute
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxGetCurrent
	cuCtxSetCurrent
	cuCtxGetStreamPriorityRange
	cuCtxEnablePeerAccess
	cuStreamCreateWithPriority
	cuStreamDestroy
	cuStreamQuery
	cuStreamSynchronize
	cuStreamWaitEvent
	cuStreamWriteValue32
	cuStreamWaitValue32
	cuStreamBeginCapture
	cuStreamEndCapture
	cuStreamGetCaptureInfo
	cuThreadExchangeStreamCaptureMode
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventQuery
	cuEventElapsedTime
	cuMemAlloc
	cuMemFree
	cuMemGetInfo
	cuMemcpyAsync
	cuMemsetD8Async
	cuMemsetD32Async
	cuMemHostAlloc
	cuMemFreeHost
	cuMemHostRegister
	cuMemHostUnregister
	cuMemHostGetDevicePointer
	cuPointerGetAttribute
	cuMemGetAllocationGranularity
	cuMemCreate
	cuMemRelease
	cuMemAddressReserve
	cuMemAddressFree
	cuMemMap
	cuMemUnmap
	cuMemSetAccess
	cuMemExportToShareableHandle
	cuMemImportFromShareableHandle
	cuIpcGetMemHandle
	cuIpcOpenMemHandle
	cuIpcCloseMemHandle
	cuModuleLoadDataEx
	cuModuleUnload
	cuModuleGetFunction
	cuFuncGetAttribute
	cuLaunchKernel
	cuGraphInstantiate
	cuGraphLaunch
	cuGraphExecDestroy
	cuGraphDestroy
	cuGraphGetNodes
	cuFuncLoad // from here on they may be absent
	cuLaunchKernelEx
	cuGraphExecKernelNodeSetParams
	numSymbols
)

// names are the library's. A version behind a name is part of the interface: _v2 takes 64-bit sizes, or is the current
// form of a call that changed.
var names = [numSymbols]string{
	cuGetErrorName: "cuGetErrorName", cuGetErrorString: "cuGetErrorString", cuInit: "cuInit",
	cuDriverGetVersion: "cuDriverGetVersion", cuDeviceGetCount: "cuDeviceGetCount", cuDeviceGet: "cuDeviceGet",
	cuDeviceGetName: "cuDeviceGetName", cuDeviceGetUuid: "cuDeviceGetUuid_v2", cuDeviceGetPCIBusId: "cuDeviceGetPCIBusId",
	cuDeviceTotalMem: "cuDeviceTotalMem_v2", cuDeviceGetAttribute: "cuDeviceGetAttribute",
	cuDeviceCanAccessPeer: "cuDeviceCanAccessPeer", cuDeviceGetP2PAttribute: "cuDeviceGetP2PAttribute",
	cuDevicePrimaryCtxRetain: "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
	cuCtxGetCurrent: "cuCtxGetCurrent", cuCtxSetCurrent: "cuCtxSetCurrent",
	cuCtxGetStreamPriorityRange: "cuCtxGetStreamPriorityRange", cuCtxEnablePeerAccess: "cuCtxEnablePeerAccess",
	cuStreamCreateWithPriority: "cuStreamCreateWithPriority", cuStreamDestroy: "cuStreamDestroy_v2",
	cuStreamQuery: "cuStreamQuery", cuStreamSynchronize: "cuStreamSynchronize", cuStreamWaitEvent: "cuStreamWaitEvent",
	cuStreamWriteValue32: "cuStreamWriteValue32_v2", cuStreamWaitValue32: "cuStreamWaitValue32_v2",
	cuStreamBeginCapture: "cuStreamBeginCapture_v2", cuStreamEndCapture: "cuStreamEndCapture",
	cuStreamGetCaptureInfo: "cuStreamGetCaptureInfo_v2", cuThreadExchangeStreamCaptureMode: "cuThreadExchangeStreamCaptureMode",
	cuEventCreate: "cuEventCreate", cuEventDestroy: "cuEventDestroy_v2", cuEventRecord: "cuEventRecord",
	cuEventQuery: "cuEventQuery", cuEventElapsedTime: "cuEventElapsedTime",
	cuMemAlloc: "cuMemAlloc_v2", cuMemFree: "cuMemFree_v2", cuMemGetInfo: "cuMemGetInfo_v2", cuMemcpyAsync: "cuMemcpyAsync",
	cuMemsetD8Async: "cuMemsetD8Async", cuMemsetD32Async: "cuMemsetD32Async", cuMemHostAlloc: "cuMemHostAlloc",
	cuMemFreeHost: "cuMemFreeHost", cuMemHostRegister: "cuMemHostRegister_v2", cuMemHostUnregister: "cuMemHostUnregister",
	cuMemHostGetDevicePointer: "cuMemHostGetDevicePointer_v2", cuPointerGetAttribute: "cuPointerGetAttribute",
	cuMemGetAllocationGranularity: "cuMemGetAllocationGranularity", cuMemCreate: "cuMemCreate", cuMemRelease: "cuMemRelease",
	cuMemAddressReserve: "cuMemAddressReserve", cuMemAddressFree: "cuMemAddressFree", cuMemMap: "cuMemMap",
	cuMemUnmap: "cuMemUnmap", cuMemSetAccess: "cuMemSetAccess",
	cuMemExportToShareableHandle:   "cuMemExportToShareableHandle",
	cuMemImportFromShareableHandle: "cuMemImportFromShareableHandle",
	cuIpcGetMemHandle:              "cuIpcGetMemHandle", cuIpcOpenMemHandle: "cuIpcOpenMemHandle_v2",
	cuIpcCloseMemHandle: "cuIpcCloseMemHandle", cuModuleLoadDataEx: "cuModuleLoadDataEx", cuModuleUnload: "cuModuleUnload",
	cuModuleGetFunction: "cuModuleGetFunction", cuFuncGetAttribute: "cuFuncGetAttribute", cuLaunchKernel: "cuLaunchKernel",
	cuGraphInstantiate: "cuGraphInstantiateWithFlags", cuGraphLaunch: "cuGraphLaunch",
	cuGraphExecDestroy: "cuGraphExecDestroy", cuGraphDestroy: "cuGraphDestroy", cuFuncLoad: "cuFuncLoad",
	cuLaunchKernelEx: "cuLaunchKernelEx", cuGraphGetNodes: "cuGraphGetNodes",
	cuGraphExecKernelNodeSetParams: "cuGraphExecKernelNodeSetParams_v2",
}

// A library is the driver's library: where it lies and where its functions are.
type library struct {
	path    string
	address [numSymbols]uintptr
}

// resolve asks lookup for every function. lookup returns 0 for a function that it does not have.
func resolve(path string, lookup func(name string) uintptr) (*library, error) {
	l := &library{path: path}
	var missing []string
	for s, name := range names {
		l.address[s] = lookup(name)
		if l.address[s] == 0 && symbol(s) < cuFuncLoad {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("cuda: the driver %s is too old, CUDA 11.7 (515) is needed: it lacks %s", path, strings.Join(missing, ", "))
	}
	return l, nil
}
