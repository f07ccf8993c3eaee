package parity

const (
	oneDevice   = "CPU ranks have one device each, the CPU"
	ownProcess  = "a process ends, and simulated devices live in one; processes on real devices are in cuda/peer, TestGPUProcesses"
	noTensor    = "no tensor takes part"
	memoryInUse = "counts the memory in use on a device, and the calls of a simulated NCCL: other programs use real devices, and CPU ranks have none"
	realTime    = "dumps are written in real time, and the simulated network's is virtual"
	devicesOnly = "is about devices"
)

// fewer says why a test does not run on sim, shm, cudasim, nccl and gpu.
var fewer = map[string]string{
	"TestDefaultStoreTimeoutNCCL":           noTensor,
	"TestInitNoGPUs":                        "is about machines without GPUs",
	"TestNCCLDistBackendError":              devicesOnly,
	"TestOnCompletionHookMixedOps":          "durations are above 0 in real time only",
	"TestCommSplitOptimization":             memoryInUse,
	"TestCommSplitSubgroup":                 memoryInUse,
	"TestNonBlockingWithEagerInit":          "a group is bound to a device",
	"TestFileStoreCheck":                    noTensor + "; ranks meet in a file",
	"TestNCCLBackend2GPUModule":             oneDevice,
	"TestNCCLBackend4GPUModule":             oneDevice,
	"TestGradLayout2DeviceModule":           oneDevice,
	"TestDDPMultiDeviceModuleConfig":        devicesOnly,
	"TestPassNCCLOptionsConfig":             "passes options to the backend of a device",
	"TestPassNCCLOptionsHighPriorityStream": "counts the streams that a simulated driver makes; CPU ranks have none",
	"TestNCCLErrorsBlockingCleanExit":       ownProcess,
	"TestNCCLErrorsBlockingNonzeroExit":     ownProcess,
	"TestNCCLErrorsBlockingAbort":           ownProcess,
	"TestNCCLErrorsBlockingSIGKILL":         ownProcess,
	"TestNCCLErrorsBlockingSIGTERM":         ownProcess,
	"TestNCCLErrorsBlockingOtherCases":      ownProcess,
	"TestInvalidNCCLBlockingWaitEnv":        noTensor,
	"TestDumpPipe":                          realTime,
	"TestTimeoutDumps":                      realTime,
	"TestTimeoutDumpsOnStuckRanks":          realTime,
	"TestNCCLErrorsDump":                    realTime,
}

const (
	noModel    = "gradients are the test's own numbers; there is no model, and no forward pass"
	unusedNote = noModel + ": a parameter whose gradient does not come stands for one that the graph does not reach"
	notTraced  = "is not traced by the Python compiler"
	float8Sums = "sums of float8 are refused there, and are defined here: the result is asserted"
	onCPU      = "tensors of the processes are on the CPU"
	states     = "an operation that hangs is not completed; whether it is started or scheduled is asserted for the CPU in pg, TestTraceWhileStuck and TestTraceWhileActive"
	objectsCPU = "objects travel by the CPU on all media; on devices, where Config.ObjectDevice says so, they are tested in pg/object"
	exitCode   = "the watchdog ends the process with pg.ExitCode, not by SIGABRT, in a mode that has to be asked for; on devices the ranks are of one process and live on"
)

// differs says where a test asserts less than PyTorch's, or something else.
var differs = map[string]string{
	"TestInitNoGPUs":                                     "a group works without GPUs; the first operation on one fails and names libcuda.so.1",
	"TestNCCLDistBackendError":                           "provoked by a device that does not exist: two ranks may share a device here",
	"TestDestructBeforeTerminatePG":                      "a group of Go is not destroyed when it is dropped: processes on the CPU end with a group that is open, and on other media the harness closes it",
	"TestFileStoreCheck":                                 "the watchdog and its monitor are on here and off there; " + onCPU,
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
	"TestGradLayout1DeviceModule1ReplicaPerProcess": noModel + "; one layer of float32 in channels_last, there all mixtures of two formats and two types over four layers",
	"TestGradLayout2DeviceModule":                   noModel + "; one mixture of two formats and two types over four layers, there all",
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
	"TestOnCompletionHookAllGatherObject":           objectsCPU,
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
	"TestIntraNodeCommAllReduce":                    "the same kernels serve all sizes, by a table that is asserted; 4 KiB and 512 KiB, there 10 MiB too. The counter is that of Metrics.Carried over NCCL, which cuda/nccl asserts",
	"TestPassNCCLOptionsHighPriorityStream":         "no option: the streams of asynchronous operations always have the greatest priority",
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
	"TestGatherObjectSubgroup":                      objectsCPU,
	"TestSendRecvObjectListSubgroup":                objectsCPU,
	"TestBroadcastObjectListSubgroup":               objectsCPU,
	"TestScatterObjectListSubgroup":                 objectsCPU,
	"TestDDPSetSparseMetadata":                      noModel + "; the result is asserted, there a refusal by NCCL is as good",
	"TestShort":                                     "the dump is looked at as a value; its pickle and JSON are tested in pg/flight",
	"TestLong":                                      "the dump is looked at as a value; its pickle and JSON are tested in pg/flight",
	"TestTraceWhileActive":                          states,
	"TestTraceWhileStuck":                           states,
	"TestCoalescingManagerCollective":               "on devices each call of the block has an entry of its own; on the CPU there is one, as there",
	"TestTimeoutDumps":                              exitCode,
	"TestTimeoutDumpsOnStuckRanks":                  exitCode,
	"TestNCCLErrorsDump":                            exitCode,
}
