package cuda

import "unsafe"

// A Driver is the driver API as a table of functions, named as the driver names them without the leading cu and the
// version behind. The functions return the driver's result beside what it writes through pointers. They may be called from
// any goroutine; those that work on the current context need a Thread around them.
type Driver struct {
	Path     string // file the table was read from, or a name for it
	Blocking bool   // each launch waits for its kernel's end, as CUDA_LAUNCH_BLOCKING=1 asks for

	GetErrorName     func(Result) string
	GetErrorString   func(Result) string
	Init             func() Result
	DriverGetVersion func() (int, Result) // 1000 × major + 10 × minor of CUDA

	DeviceGetCount          func() (int, Result)
	DeviceGet               func(ordinal int) (DeviceID, Result)
	DeviceGetName           func(DeviceID) (string, Result)
	DeviceGetUUID           func(DeviceID) ([16]byte, Result)
	DeviceGetPCIBusID       func(DeviceID) (string, Result)
	DeviceTotalMem          func(DeviceID) (uint64, Result)
	DeviceGetAttribute      func(Attribute, DeviceID) (int, Result)
	DeviceCanAccessPeer     func(device, peer DeviceID) (bool, Result)
	DeviceGetP2PAttribute   func(a P2PAttribute, src, dst DeviceID) (int, Result)
	DevicePrimaryCtxRetain  func(DeviceID) (Context, Result)
	DevicePrimaryCtxRelease func(DeviceID) Result

	CtxGetCurrent             func() (Context, Result)
	CtxSetCurrent             func(Context) Result
	CtxGetStreamPriorityRange func() (least, greatest int, r Result)
	CtxEnablePeerAccess       func(peer Context) Result

	StreamCreateWithPriority        func(flags StreamFlags, priority int) (Stream, Result)
	StreamDestroy                   func(Stream) Result
	StreamQuery                     func(Stream) Result
	StreamSynchronize               func(Stream) Result
	StreamWaitEvent                 func(Stream, Event) Result
	StreamWriteValue32              func(s Stream, at Pointer, value uint32) Result
	StreamWaitValue32               func(s Stream, at Pointer, value uint32, flags WaitFlags) Result
	StreamBeginCapture              func(Stream, CaptureMode) Result
	StreamEndCapture                func(Stream) (Graph, Result)
	StreamGetCaptureInfo            func(Stream) (status CaptureStatus, id uint64, r Result)
	ThreadExchangeStreamCaptureMode func(CaptureMode) (CaptureMode, Result)

	EventCreate      func(flags EventFlags) (Event, Result)
	EventDestroy     func(Event) Result
	EventRecord      func(Event, Stream) Result
	EventQuery       func(Event) Result
	EventElapsedTime func(start, end Event) (milliseconds float32, r Result)

	MemAlloc                func(bytes int) (Pointer, Result)
	MemFree                 func(Pointer) Result
	MemGetInfo              func() (free, total uint64, r Result)
	MemcpyAsync             func(dst, src Pointer, bytes int, s Stream) Result
	MemsetD8Async           func(dst Pointer, value uint8, count int, s Stream) Result
	MemsetD32Async          func(dst Pointer, value uint32, count int, s Stream) Result
	MemHostAlloc            func(bytes int, flags HostFlags) (unsafe.Pointer, Result)
	MemFreeHost             func(unsafe.Pointer) Result
	MemHostRegister         func(p unsafe.Pointer, bytes int, flags HostFlags) Result
	MemHostUnregister       func(unsafe.Pointer) Result
	MemHostGetDevicePointer func(unsafe.Pointer) (Pointer, Result)
	PointerGetAttribute     func(PointerAttribute, Pointer) (uint64, Result)

	// Memory here is pinned on device and can be exported as a file descriptor.
	MemGetAllocationGranularity  func(device DeviceID) (int, Result)
	MemCreate                    func(bytes int, device DeviceID) (Allocation, Result)
	MemRelease                   func(Allocation) Result
	MemAddressReserve            func(bytes int) (Pointer, Result)
	MemAddressFree               func(Pointer, int) Result
	MemMap                       func(at Pointer, bytes int, a Allocation) Result
	MemUnmap                     func(at Pointer, bytes int) Result
	MemSetAccess                 func(at Pointer, bytes int, device DeviceID) Result // read and write
	MemExportToShareableHandle   func(Allocation) (fd int, r Result)
	MemImportFromShareableHandle func(fd int) (Allocation, Result)
	IpcGetMemHandle              func(Pointer) (IPCHandle, Result)
	IpcOpenMemHandle             func(h *IPCHandle, flags IPCFlags) (Pointer, Result)
	IpcCloseMemHandle            func(Pointer) Result

	// ModuleLoadDataEx takes PTX that ends in a zero byte, or a cubin; log is the compiler's output.
	ModuleLoadDataEx  func(image []byte) (m Module, log string, r Result)
	ModuleUnload      func(Module) Result
	ModuleGetFunction func(m Module, name string) (Function, Result)
	// FuncLoad puts the code on the device, which the driver else does at the first launch.
	FuncLoad func(Function) Result
	// FuncGetAttribute returns a need of a function. The driver puts its code on the device for that.
	FuncGetAttribute func(FunctionAttribute, Function) (int, Result)
	// LaunchKernel's grid and blocks have one dimension; args is the kernel's only parameter.
	LaunchKernel func(f Function, blocks, threads, shared uint32, s Stream, args unsafe.Pointer) Result
	// LaunchAhead is LaunchKernelEx with programmatic stream serialization: a kernel may begin while the one before it on the
	// stream ends. Drivers before CUDA 11.8 have none: it is nil.
	LaunchAhead func(f Function, blocks, threads, shared uint32, s Stream, args unsafe.Pointer) Result

	GraphInstantiate func(Graph) (GraphExec, Result)
	GraphLaunch      func(GraphExec, Stream) Result
	// GraphLaunchOutside is GraphLaunch on a stream that is not captured. On a captured stream it launches nothing and reports true.
	// The stream is not the legacy default stream.
	GraphLaunchOutside func(GraphExec, Stream) (captured bool, r Result)
	GraphExecDestroy   func(GraphExec) Result
	GraphDestroy       func(Graph) Result
	// GraphGetNodes returns the node of a graph that has a single node.
	GraphGetNodes func(Graph) (GraphNode, Result)
	// GraphExecKernelNodeSetParams changes what later launches of e launch in place of the kernel of node n. Drivers before
	// CUDA 12.0 have none: it is nil.
	GraphExecKernelNodeSetParams func(e GraphExec, n GraphNode, f Function, blocks, threads, shared uint32, args unsafe.Pointer) Result
}
