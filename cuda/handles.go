package cuda

// Handles of the driver. They are plain words, so that handles made elsewhere in the process, by another CUDA library
// for instance, convert to them.
type (
	DeviceID   int32
	Context    uintptr
	Stream     uintptr // 0 is the legacy default stream
	Event      uintptr
	Module     uintptr
	Function   uintptr
	Graph      uintptr
	GraphExec  uintptr
	GraphNode  uintptr
	Allocation uint64 // physical memory made by MemCreate or imported
)

// Pointer is an address on a device, or of mapped host memory as devices see it.
type Pointer uint64

// IPCHandle names an allocation of cuMemAlloc to other processes of one host.
type IPCHandle [64]byte

// Attribute is a property of a device, numbered as CUdevice_attribute.
type Attribute int32

// The attributes that collectives look at.
const (
	MultiprocessorCount    Attribute = 16
	AsyncEngineCount       Attribute = 40
	UnifiedAddressing      Attribute = 41
	ComputeCapabilityMajor Attribute = 75
	ComputeCapabilityMinor Attribute = 76
	VirtualMemory          Attribute = 102 // MemCreate and its kin work
	FileDescriptorHandles  Attribute = 103 // allocations can be exported as file descriptors
)

// P2PAttribute is a property of a directed pair of devices, numbered as CUdevice_P2PAttribute.
type P2PAttribute int32

// The properties of pairs.
const (
	P2PPerformanceRank P2PAttribute = 1 // lower is faster
	P2PNativeAtomics   P2PAttribute = 3
)

// FunctionAttribute is a property of a function, numbered as CUfunction_attribute.
type FunctionAttribute int32

// The properties of functions, each of a thread.
const (
	LocalBytes FunctionAttribute = 3 // of local memory, for values that its registers do not hold
	Registers  FunctionAttribute = 4
)

// PointerAttribute is a property of an address, numbered as CUpointer_attribute.
type PointerAttribute int32

// The properties of addresses.
const (
	PointerContext    PointerAttribute = 1
	PointerMemoryType PointerAttribute = 2 // one of the MemoryTypes
	PointerBufferID   PointerAttribute = 7 // differs for each allocation in the life of the process
	PointerDevice     PointerAttribute = 9
	PointerIPC        PointerAttribute = 10 // 1 if IPCGetMemHandle takes it
	PointerRangeStart PointerAttribute = 11
	PointerRangeSize  PointerAttribute = 12
)

// The values of PointerMemoryType.
const (
	MemoryTypeHost   = 1
	MemoryTypeDevice = 2
)

// Flags of the calls in the table. Each has a type of its own: a flag in the place of a number, as of a priority, does not compile.
type (
	StreamFlags uint32
	EventFlags  uint32
	HostFlags   uint32 // of pinned host memory
	WaitFlags   uint32 // of a stream's wait for a word of memory
	IPCFlags    uint32
)

// The flags.
const (
	StreamNonBlocking StreamFlags = 1 // do not order with the legacy default stream

	EventDisableTiming EventFlags = 2

	HostPortable HostFlags = 1 // pinned for every context
	HostMapped   HostFlags = 2 // has an address on devices

	WaitGreaterEqual WaitFlags = 0 // (int32)(memory - value) >= 0
	WaitEqual        WaitFlags = 1

	IPCLazyPeerAccess IPCFlags = 1
)

// CaptureMode says which calls the driver refuses while a stream is captured.
type CaptureMode int32

// The capture modes.
const (
	CaptureGlobal      CaptureMode = 0
	CaptureThreadLocal CaptureMode = 1
	CaptureRelaxed     CaptureMode = 2
)

// CaptureStatus says whether a stream is captured.
type CaptureStatus int32

// The capture states.
const (
	CaptureNone        CaptureStatus = 0
	CaptureActive      CaptureStatus = 1
	CaptureInvalidated CaptureStatus = 2 // a call broke it; EndCapture will fail
)
