package nccl

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
)

// UniqueID is made by one rank and handed to all others before they make a Comm.
type UniqueID [128]byte

// Handles of the library; 0 is none.
type (
	CommHandle   uintptr
	MemoryHandle uintptr // of Comm.Register
	WindowHandle uintptr // of Comm.RegisterWindow
)

// DType and Op are ncclDataType_t and ncclRedOp_t.
type (
	DType int32
	Op    int32
)

// Table is the library's functions, with its names and types. A nil function is one that the library does not have. The
// real table comes from Open; package ncclsim has one without a library.
type Table struct {
	GetVersion     func(version *int32) Result
	GetErrorString func(r Result) string
	GetLastError   func(c CommHandle) string
	GetUniqueId    func(id *UniqueID) Result

	CommInitRank         func(c *CommHandle, size int, id *UniqueID, rank int) Result
	CommInitRankConfig   func(c *CommHandle, size int, id *UniqueID, rank int, config *RawConfig) Result
	CommInitRankScalable func(c *CommHandle, size, rank int, ids []UniqueID, config *RawConfig) Result
	CommInitAll          func(all []CommHandle, devices []int32) Result
	CommSplit            func(c CommHandle, color, key int, part *CommHandle, config *RawConfig) Result
	CommShrink           func(c CommHandle, without []int32, part *CommHandle, config *RawConfig, flags int) Result
	CommFinalize         func(c CommHandle) Result
	CommDestroy          func(c CommHandle) Result
	CommAbort            func(c CommHandle) Result
	CommGetAsyncError    func(c CommHandle, async *Result) Result
	CommCount            func(c CommHandle, n *int32) Result
	CommCuDevice         func(c CommHandle, n *int32) Result
	CommUserRank         func(c CommHandle, n *int32) Result

	CommRegister         func(c CommHandle, at cuda.Pointer, bytes int, h *MemoryHandle) Result
	CommDeregister       func(c CommHandle, h MemoryHandle) Result
	CommWindowRegister   func(c CommHandle, at cuda.Pointer, bytes int, w *WindowHandle, flags int) Result
	CommWindowDeregister func(c CommHandle, w WindowHandle) Result
	MemAlloc             func(at *cuda.Pointer, bytes int) Result
	MemFree              func(at cuda.Pointer) Result

	RedOpCreatePreMulSum func(op *Op, factor unsafe.Pointer, d DType, residence int, c CommHandle) Result
	RedOpDestroy         func(op Op, c CommHandle) Result

	AllReduce     func(in, out cuda.Pointer, count int, d DType, op Op, c CommHandle, s cuda.Stream) Result
	Reduce        func(in, out cuda.Pointer, count int, d DType, op Op, root int, c CommHandle, s cuda.Stream) Result
	ReduceScatter func(in, out cuda.Pointer, count int, d DType, op Op, c CommHandle, s cuda.Stream) Result
	AllGather     func(in, out cuda.Pointer, count int, d DType, c CommHandle, s cuda.Stream) Result
	Broadcast     func(in, out cuda.Pointer, count int, d DType, root int, c CommHandle, s cuda.Stream) Result
	Bcast         func(at cuda.Pointer, count int, d DType, root int, c CommHandle, s cuda.Stream) Result
	Send          func(in cuda.Pointer, count int, d DType, peer int, c CommHandle, s cuda.Stream) Result
	Recv          func(out cuda.Pointer, count int, d DType, peer int, c CommHandle, s cuda.Stream) Result
	GroupStart    func() Result
	GroupEnd      func() Result
}

// messagesSince is the version from which on the library has messages.
const messagesSince = 20700

// since says from which version on the library has a function. Functions without an entry are in every version from oldest on.
var since = map[string]int{
	"ncclSend": messagesSince, "ncclRecv": messagesSince,
	"ncclRedOpCreatePreMulSum": 21100, "ncclRedOpDestroy": 21100,
	"ncclGetLastError":       21300,
	"ncclCommInitRankConfig": 21400, "ncclCommFinalize": 21400,
	"ncclCommSplit":    21800,
	"ncclCommRegister": 21900, "ncclCommDeregister": 21900, "ncclMemAlloc": 21900, "ncclMemFree": 21900,
	"ncclCommInitRankScalable": 22300,
	"ncclCommWindowRegister":   22700, "ncclCommWindowDeregister": 22700, "ncclCommShrink": 22700,
}
