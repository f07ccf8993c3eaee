//go:build amd64 || arm64

package nccl

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/ccall"
	"github.com/ebitengine/purego"
)

// functions are the library's addresses by name, 0 for what it does not have.
type functions map[string]uintptr

// call calls a function with words. Pointers to Go memory among them stay alive and in place until it returns.
//
//go:uintptrescapes
func call(at uintptr, words ...uintptr) Result {
	return Result(ccall.Words(at, words...))
}

// enqueue calls a function that enqueues a collective or a message. Its words are numbers, handles and addresses of device memory, so
// the call allocates nothing.
func enqueue(at uintptr, words ...uintptr) Result { return Result(ccall.Words(at, words...)) }

// word passes a signed int.
func word(v int) uintptr { return uintptr(uint32(int32(v))) }

// table returns the functions with Go's types.
func (f functions) table() Table {
	var t Table
	f.bindErrors(&t)
	f.bindMaking(&t)
	f.bindComms(&t)
	f.bindMemory(&t)
	f.bindReductions(&t)
	f.bindMoves(&t)
	return t
}

func (f functions) bindErrors(t *Table) {
	version, id := f["ncclGetVersion"], f["ncclGetUniqueId"]
	t.GetVersion = func(v *int32) Result { return call(version, uintptr(unsafe.Pointer(v))) }
	t.GetUniqueId = func(u *UniqueID) Result { return call(id, uintptr(unsafe.Pointer(u))) }
	text := f["ncclGetErrorString"]
	t.GetErrorString = func(r Result) string {
		p, _, _ := purego.SyscallN(text, uintptr(r))
		return goString(p)
	}
	if last := f["ncclGetLastError"]; last != 0 {
		t.GetLastError = func(c CommHandle) string {
			p, _, _ := purego.SyscallN(last, uintptr(c))
			return goString(p)
		}
	}
	start, end := f["ncclGroupStart"], f["ncclGroupEnd"]
	t.GroupStart = func() Result { return call(start) }
	t.GroupEnd = func() Result { return call(end) }
}

func (f functions) bindMaking(t *Table) {
	rank, all := f["ncclCommInitRank"], f["ncclCommInitAll"]
	t.CommInitRank = func(c *CommHandle, size int, id *UniqueID, r int) Result {
		return callWithID(rank, uintptr(unsafe.Pointer(c)), word(size), id, word(r), 0)
	}
	t.CommInitAll = func(cs []CommHandle, devices []int32) Result {
		return call(all, uintptr(unsafe.Pointer(unsafe.SliceData(cs))), word(len(cs)), uintptr(unsafe.Pointer(unsafe.SliceData(devices))))
	}
	if at := f["ncclCommInitRankConfig"]; at != 0 {
		t.CommInitRankConfig = func(c *CommHandle, size int, id *UniqueID, r int, config *RawConfig) Result {
			return callWithID(at, uintptr(unsafe.Pointer(c)), word(size), id, word(r), uintptr(unsafe.Pointer(config)))
		}
	}
	if at := f["ncclCommInitRankScalable"]; at != 0 {
		t.CommInitRankScalable = func(c *CommHandle, size, r int, ids []UniqueID, config *RawConfig) Result {
			return call(at, uintptr(unsafe.Pointer(c)), word(size), word(r), word(len(ids)),
				uintptr(unsafe.Pointer(unsafe.SliceData(ids))), uintptr(unsafe.Pointer(config)))
		}
	}
	if at := f["ncclCommSplit"]; at != 0 {
		t.CommSplit = func(c CommHandle, color, key int, part *CommHandle, config *RawConfig) Result {
			return call(at, uintptr(c), word(color), word(key), uintptr(unsafe.Pointer(part)), uintptr(unsafe.Pointer(config)))
		}
	}
	if at := f["ncclCommShrink"]; at != 0 {
		t.CommShrink = func(c CommHandle, without []int32, part *CommHandle, config *RawConfig, flags int) Result {
			return call(at, uintptr(c), uintptr(unsafe.Pointer(unsafe.SliceData(without))), word(len(without)),
				uintptr(unsafe.Pointer(part)), uintptr(unsafe.Pointer(config)), word(flags))
		}
	}
}

func (f functions) bindComms(t *Table) {
	of := func(name string) func(CommHandle) Result {
		at := f[name]
		if at == 0 {
			return nil
		}
		return func(c CommHandle) Result { return call(at, uintptr(c)) }
	}
	t.CommFinalize, t.CommDestroy, t.CommAbort = of("ncclCommFinalize"), of("ncclCommDestroy"), of("ncclCommAbort")
	number := func(name string) func(CommHandle, *int32) Result {
		at := f[name]
		return func(c CommHandle, n *int32) Result { return call(at, uintptr(c), uintptr(unsafe.Pointer(n))) }
	}
	t.CommCount, t.CommCuDevice, t.CommUserRank = number("ncclCommCount"), number("ncclCommCuDevice"), number("ncclCommUserRank")
	async := f["ncclCommGetAsyncError"]
	t.CommGetAsyncError = func(c CommHandle, r *Result) Result { return call(async, uintptr(c), uintptr(unsafe.Pointer(r))) }
}

func (f functions) bindMemory(t *Table) {
	if at, undo := f["ncclCommRegister"], f["ncclCommDeregister"]; at != 0 && undo != 0 {
		t.CommRegister = func(c CommHandle, p cuda.Pointer, bytes int, h *MemoryHandle) Result {
			return call(at, uintptr(c), uintptr(p), uintptr(bytes), uintptr(unsafe.Pointer(h)))
		}
		t.CommDeregister = func(c CommHandle, h MemoryHandle) Result { return call(undo, uintptr(c), uintptr(h)) }
	}
	if at, undo := f["ncclCommWindowRegister"], f["ncclCommWindowDeregister"]; at != 0 && undo != 0 {
		t.CommWindowRegister = func(c CommHandle, p cuda.Pointer, bytes int, w *WindowHandle, flags int) Result {
			return call(at, uintptr(c), uintptr(p), uintptr(bytes), uintptr(unsafe.Pointer(w)), word(flags))
		}
		t.CommWindowDeregister = func(c CommHandle, w WindowHandle) Result { return call(undo, uintptr(c), uintptr(w)) }
	}
	if at, undo := f["ncclMemAlloc"], f["ncclMemFree"]; at != 0 && undo != 0 {
		t.MemAlloc = func(p *cuda.Pointer, bytes int) Result { return call(at, uintptr(unsafe.Pointer(p)), uintptr(bytes)) }
		t.MemFree = func(p cuda.Pointer) Result { return call(undo, uintptr(p)) }
	}
}

func (f functions) bindReductions(t *Table) {
	if at, undo := f["ncclRedOpCreatePreMulSum"], f["ncclRedOpDestroy"]; at != 0 && undo != 0 {
		t.RedOpCreatePreMulSum = func(op *Op, factor unsafe.Pointer, d DType, residence int, c CommHandle) Result {
			return call(at, uintptr(unsafe.Pointer(op)), uintptr(factor), uintptr(d), word(residence), uintptr(c))
		}
		t.RedOpDestroy = func(op Op, c CommHandle) Result { return call(undo, word(int(op)), uintptr(c)) }
	}
	allReduce, reduce, scatter := f["ncclAllReduce"], f["ncclReduce"], f["ncclReduceScatter"]
	t.AllReduce = func(in, out cuda.Pointer, n int, d DType, op Op, c CommHandle, s cuda.Stream) Result {
		return enqueue(allReduce, uintptr(in), uintptr(out), uintptr(n), uintptr(d), word(int(op)), uintptr(c), uintptr(s))
	}
	t.Reduce = func(in, out cuda.Pointer, n int, d DType, op Op, root int, c CommHandle, s cuda.Stream) Result {
		return enqueue(reduce, uintptr(in), uintptr(out), uintptr(n), uintptr(d), word(int(op)), word(root), uintptr(c), uintptr(s))
	}
	t.ReduceScatter = func(in, out cuda.Pointer, n int, d DType, op Op, c CommHandle, s cuda.Stream) Result {
		return enqueue(scatter, uintptr(in), uintptr(out), uintptr(n), uintptr(d), word(int(op)), uintptr(c), uintptr(s))
	}
}

func (f functions) bindMoves(t *Table) {
	gather, broadcast, bcast := f["ncclAllGather"], f["ncclBroadcast"], f["ncclBcast"]
	t.AllGather = func(in, out cuda.Pointer, n int, d DType, c CommHandle, s cuda.Stream) Result {
		return enqueue(gather, uintptr(in), uintptr(out), uintptr(n), uintptr(d), uintptr(c), uintptr(s))
	}
	t.Broadcast = func(in, out cuda.Pointer, n int, d DType, root int, c CommHandle, s cuda.Stream) Result {
		return enqueue(broadcast, uintptr(in), uintptr(out), uintptr(n), uintptr(d), word(root), uintptr(c), uintptr(s))
	}
	t.Bcast = func(p cuda.Pointer, n int, d DType, root int, c CommHandle, s cuda.Stream) Result {
		return enqueue(bcast, uintptr(p), uintptr(n), uintptr(d), word(root), uintptr(c), uintptr(s))
	}
	if send := f["ncclSend"]; send != 0 {
		t.Send = func(in cuda.Pointer, n int, d DType, peer int, c CommHandle, s cuda.Stream) Result {
			return enqueue(send, uintptr(in), uintptr(n), uintptr(d), word(peer), uintptr(c), uintptr(s))
		}
	}
	if recv := f["ncclRecv"]; recv != 0 {
		t.Recv = func(out cuda.Pointer, n int, d DType, peer int, c CommHandle, s cuda.Stream) Result {
			return enqueue(recv, uintptr(out), uintptr(n), uintptr(d), word(peer), uintptr(c), uintptr(s))
		}
	}
}

// goString copies a C string that the library owns.
func goString(p uintptr) string {
	return stringAt(*(**byte)(unsafe.Pointer(&p))) // not Go memory: no rule about its conversion is broken
}
