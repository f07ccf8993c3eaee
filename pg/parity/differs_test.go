package parity

import (
	"maps"
	"slices"
	"strings"
)

const (
	oneDevice   = "CPU ranks have one device each, the CPU"
	oneProcess  = "a process ends, and ranks of this medium share one"
	inGPU       = "the processes have their tensors on real devices where COLLIGO_GPU is set"
	noTensor    = "no tensor takes part"
	noDevice    = "CPU ranks have no device whose memory could be counted, and no communicator"
	memoryInUse = "counts the memory in use on a device, and other programs use real ones"
	realTime    = "dumps are written in real time, and the simulated network's is virtual"
	devicesOnly = "is about devices"
)

// lacks says why a test does not run on some media, by medium.
type lacks map[string]string

// without is why a test does not run on media, for one reason.
func without(reason string, media ...string) lacks {
	l := lacks{}
	for _, m := range media {
		l[m] = reason
	}
	return l
}

// and adds the reason for other media.
func (l lacks) and(reason string, media ...string) lacks {
	maps.Copy(l, without(reason, media...))
	return l
}

// ranked are the media that a test runs on where nothing says why not.
var ranked = []string{onSim, onShm, onCudasim, onNCCL, onGPU}

// processesOnly is why a test of processes that end does not run on other media.
var processesOnly = without(oneProcess, onSim, onShm, onCudasim, onNCCL).and(inGPU, onGPU)

// fewer says why a test does not run on one of the ranked media.
var fewer = map[string]lacks{
	"TestDefaultStoreTimeoutNCCL":           without(noTensor, ranked...),
	"TestInitNoGPUs":                        without("is about machines without GPUs", onCudasim, onNCCL, onGPU),
	"TestNCCLDistBackendError":              without(devicesOnly, onSim, onShm),
	"TestOnCompletionHookMixedOps":          without("durations are above 0 in real time only", onSim),
	"TestCommSplitOptimization":             without(noDevice, onSim, onShm).and(memoryInUse, onGPU),
	"TestCommSplitSubgroup":                 without(noDevice, onSim, onShm).and(memoryInUse, onGPU),
	"TestNonBlockingWithEagerInit":          without("a group is bound to a device", onSim, onShm),
	"TestFileStoreCheck":                    without(noTensor+"; ranks meet in a file, each in a process of its own", ranked...),
	"TestNCCLBackend2GPUModule":             without(oneDevice, onSim, onShm),
	"TestNCCLBackend4GPUModule":             without(oneDevice, onSim, onShm),
	"TestGradLayout2DeviceModule":           without(oneDevice, onSim, onShm),
	"TestDDPMultiDeviceModuleConfig":        without(devicesOnly, onSim, onShm),
	"TestPassNCCLOptionsConfig":             without("passes options to the backend of a device", onSim, onShm),
	"TestPassNCCLOptionsHighPriorityStream": without("CPU ranks have no streams", onSim, onShm).and("counts the streams that a simulated driver makes", onGPU),
	"TestNCCLErrorsBlockingCleanExit":       processesOnly,
	"TestNCCLErrorsBlockingNonzeroExit":     processesOnly,
	"TestNCCLErrorsBlockingAbort":           processesOnly,
	"TestNCCLErrorsBlockingSIGKILL":         processesOnly,
	"TestNCCLErrorsBlockingSIGTERM":         processesOnly,
	"TestNCCLErrorsBlockingOtherCases":      processesOnly,
	"TestInvalidNCCLBlockingWaitEnv":        without(noTensor, ranked...),
	"TestDumpPipe":                          without(realTime, onSim),
	"TestTimeoutDumps":                      without(realTime, onSim),
	"TestTimeoutDumpsOnStuckRanks":          without(realTime, onSim),
	"TestNCCLErrorsDump":                    without(realTime, onSim),
}

// String is the reasons, each with its media.
func (l lacks) String() string {
	var all []string
	for i, m := range ranked {
		if l[m] == "" || slices.ContainsFunc(ranked[:i], func(before string) bool { return l[before] == l[m] }) {
			continue
		}
		of := slices.DeleteFunc(slices.Clone(ranked), func(other string) bool { return l[other] != l[m] })
		all = append(all, strings.Join(of, ", ")+": "+l[m])
	}
	return strings.Join(all, "; ")
}

const (
	noModel    = "gradients are the test's own numbers; there is no model, and no forward pass"
	unusedNote = noModel + ": a parameter whose gradient does not come stands for one that the graph does not reach"
	notTraced  = "is not traced by the Python compiler"
	float8Sums = "sums of float8 are refused there, and are defined here: the result is asserted"
	onCPU      = "tensors of the processes are on the CPU, and on GPUs where COLLIGO_GPU is set"
	states     = "as there on devices; on the CPU, where every operation is timed, one that hangs is started also without timing"
	exitCode   = "the watchdog ends the process with pg.ExitCode, not by SIGABRT, in a mode that has to be asked for; on devices the ranks are of one process and live on"
)

// differs says where a test asserts less than PyTorch's, or something else.
var differs = map[string]string{
	"TestInitNoGPUs":                                     "a group works without GPUs; the first operation on one fails and names libcuda.so.1",
	"TestNCCLDistBackendError":                           "provoked by a device that does not exist: two ranks may share a device here",
	"TestDestructBeforeTerminatePG":                      "a group of Go is not destroyed when it is dropped: processes on the CPU end with a group that is open, and on other media the harness closes it",
	"TestInitProcessGroupNCCLTimeout":                    "the default of operations on devices is 10 minutes as there, and what records tell; the limit cannot be given a second time by pg_options, which there is overridden",
	"TestSetNCCLPGTimeout":                               "the limit is the group's; there each backend of the group has one",
	"TestCommSplitOptimization":                          "by NCCL the communicator is split when the group is made, as in 2.11; there at its first use. The own backend splits none: the memory in use of a device tells when a group takes what it needs",
	"TestCommSplitSubgroup":                              "by NCCL as there; else as TestCommSplitOptimization, with both ranks in the subgroup",
	"TestNonBlockingInit":                                "nothing blocks while a group forms its backend but the calls that need it: TORCH_NCCL_USE_COMM_NONBLOCKING has nothing to choose",
	"TestNonBlockingWithEagerInit":                       "as TestNonBlockingInit; besides, other devices are refused",
	"TestGetUID":                                         "UIDs differ between groups and are the same on all ranks; there they are 0 and 1",
	"TestNCCLBackendSingleDeviceModuleDeviceIDsNone":     noModel,
	"TestNCCLBackend2GPUModule":                          noModel,
	"TestNCCLBackend4GPUModule":                          noModel,
	"TestDDPMultiDeviceModuleConfig":                     "of four refusals the one that a reducer can meet: parameters on CPU and GPU",
	"TestFindUnusedParametersKwargDebugDetail":           unusedNote,
	"TestFindUnusedParametersKwargDebugInfo":             unusedNote,
	"TestFindUnusedParametersKwargDebugOff":              unusedNote,
	"TestFindUnusedParametersKwargGradIsViewDebugDetail": unusedNote,
	"TestFindUnusedParametersKwargGradIsViewDebugInfo":   unusedNote,
	"TestFindUnusedParametersKwargGradIsViewDebugOff":    unusedNote,
	"TestMultipleOutputsMultipleBackward":                noModel,
	"TestMultipleOutputsMultipleBackwardGradIsView":      noModel,
	"TestNoGrad":                                    noModel,
	"TestAccumulateGradientsModule":                 noModel,
	"TestAccumulateGradientsModuleWithGradIsView":   noModel,
	"TestFailureRecovery":                           noModel + "; a closed group of both ranks gives way to the default group, which there is formed anew through a second file",
	"TestPassDefaultPG":                             noModel,
	"TestFP16":                                      noModel,
	"TestGradLayout1DeviceModule1ReplicaPerProcess": noModel,
	"TestGradLayout2DeviceModule":                   noModel,
	"TestParamLayoutMismatchError":                  "all ranks hear of the mismatch, there all but rank 0",
	"TestDDPCommHookFuturePassingGPUNCCL":           noModel,
	"TestDDPCommHookAllReduceHookNCCL":              noModel + "; the hook divides by a premultiplied sum",
	"TestDefaultDDPCommHooksNCCL":                   noModel,
	"TestFP16CompressWrapper":                       noModel,
	"TestBF16CompressWrapperIsView":                 noModel,
	"TestBuiltinDDPCommHooksNCCLGradIsView":         noModel,
	"TestPowerSGDDDPCommHookNCCLGradIsView":         noModel + "; with a compression rate of 1, for gradients of the default rate would not be compressed at all",
	"TestDDPCommHookAllReduceWithThenHookNCCL":      noModel,
	"TestDDPWeightSharing":                          noModel + "; 64 by 64 elements, there 2048 by 2048",
	"TestChannelsLastContig":                        "27,648 elements, there 28 million; the result is asserted, there that the call returns",
	"TestDDPComplexParams":                          noModel,
	"TestOnCompletionHookBroadcast":                 "durations are at least 0, there more: virtual time stands still",
	"TestOnCompletionHookWithDDP":                   noModel,
	"TestNCCLErrorsNonblocking":                     "the work stays pending until the group is aborted; there a thread that calls another one hangs",
	"TestNCCLErrorsBlockingCleanExit":               onCPU,
	"TestNCCLErrorsBlockingNonzeroExit":             onCPU,
	"TestNCCLErrorsBlockingAbort":                   onCPU,
	"TestNCCLErrorsBlockingSIGKILL":                 onCPU,
	"TestNCCLErrorsBlockingSIGTERM":                 onCPU,
	"TestNCCLErrorsBlockingOtherCases":              onCPU,
	"TestAllReduceCoalescedNCCLFloat8Errors":        float8Sums,
	"TestReduceScatterBaseKFloat8Errors":            float8Sums,
	"TestReduceScatterTensorCoalescedFloat8Errors":  float8Sums,
	"TestIntraNodeCommAllReduce":                    "the same kernels serve all sizes, by a table that is asserted. The counter is that of Metrics.Carried over NCCL, which cuda/nccl asserts",
	"TestPassNCCLOptionsHighPriorityStream":         "over peer there is no option, and the streams of asynchronous operations always have the greatest priority; over NCCL there is one",
	"TestPassNCCLOptionsConfig":                     "by NCCL the fields are read from the call of the library, there from its log. The own backend's options are a table of algorithms and grids",
	"TestNCCLBarrierDeviceIDsFunctionArgument":      "refuses devices that a rank cannot have; there what is no list is a type error",
	"TestNCCLWarnNotInGroupDebugDetail":             "calls on a group without this rank are errors, there warnings",
	"TestNCCLWarnNotInGroupDebugInfo":               "calls on a group without this rank are errors, there warnings",
	"TestNCCLWarnNotInGroupDebugOff":                "calls on a group without this rank are errors, there warnings",
	"TestAllReduceWorkWaitGPU":                      notTraced,
	"TestAllGatherWorkWaitGPU":                      notTraced,
	"TestAllGatherIntoTensorWorkWaitGPU":            notTraced,
	"TestReduceScatterWorkWaitGPU":                  notTraced,
	"TestReduceScatterTensorWorkWaitGPU":            notTraced,
	"TestBroadcastWorkWaitGPU":                      notTraced,
	"TestScatterWorkWaitGPU":                        notTraced,
	"TestAllToAllWorkWaitGPU":                       notTraced,
	"TestConsecutiveCommWorkWaitGPU":                notTraced,
	"TestDDPSetSparseMetadata":                      noModel + "; the result is asserted, there a refusal by NCCL is as good; on devices sparse gradients are refused where SetSparseRows has not told their rows",
	"TestShort":                                     "the dump is looked at as a value; its pickle and JSON are tested in pg/flight",
	"TestLong":                                      "the dump is looked at as a value; its pickle and JSON are tested in pg/flight",
	"TestTraceWhileActive":                          states,
	"TestTraceWhileStuck":                           states,
	"TestTimeoutDumps":                              exitCode,
	"TestTimeoutDumpsOnStuckRanks":                  exitCode,
	"TestNCCLErrorsDump":                            exitCode,
}
