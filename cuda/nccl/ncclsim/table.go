package ncclsim

import (
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/kernels"
)

// table returns the functions.
func (s *Sim) table() nccl.Table {
	var t nccl.Table
	s.bindComms(&t)
	s.bindReductions(&t)
	s.bindMoves(&t)
	t.GetVersion = func(v *int32) nccl.Result { *v = int32(s.version); return nccl.Success }
	t.GetErrorString = func(r nccl.Result) string { return "simulated " + r.String() }
	t.GetUniqueId = func(id *nccl.UniqueID) nccl.Result {
		return s.locked("ncclGetUniqueId", func() nccl.Result { *id = s.newID(); return nccl.Success })
	}
	t.GroupStart = func() nccl.Result { return s.locked("ncclGroupStart", s.groupStart) }
	t.GroupEnd = func() nccl.Result { return s.locked("ncclGroupEnd", s.groupEnd) }
	return t
}

// locked carries out a call with the lock held.
func (s *Sim) locked(function string, f func() nccl.Result) nccl.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.begin(function); r != nccl.Success {
		return r
	}
	return f()
}

// of carries out a call of a communicator with the lock held.
func (s *Sim) of(function string, h nccl.CommHandle, f func(c *comm) nccl.Result) nccl.Result {
	return s.locked(function, func() nccl.Result {
		c := s.comms[h]
		if c == nil {
			return nccl.InvalidArgument
		}
		return f(c)
	})
}

// progressing is how many times a communicator that does not block says that it is in progress.
const progressing = 3

func (s *Sim) bindComms(t *nccl.Table) {
	t.CommInitRank = func(to *nccl.CommHandle, size int, id *nccl.UniqueID, rank int) nccl.Result {
		return s.locked("ncclCommInitRank", func() nccl.Result { return s.joinAndWait(to, size, *id, rank) })
	}
	t.CommInitRankConfig = func(to *nccl.CommHandle, size int, id *nccl.UniqueID, rank int, config *nccl.RawConfig) nccl.Result {
		return s.locked("ncclCommInitRankConfig", func() nccl.Result {
			s.configs = append(s.configs, config.Config())
			if config.Blocks() {
				return s.joinAndWait(to, size, *id, rank)
			}
			c, r := s.join(*id, rank, size, to)
			if r != nccl.Success {
				return r
			}
			c.nonBlocking, c.progress = true, progressing
			return nccl.InProgress
		})
	}
	number := func(function string, of func(c *comm) int) func(nccl.CommHandle, *int32) nccl.Result {
		return func(h nccl.CommHandle, n *int32) nccl.Result {
			return s.of(function, h, func(c *comm) nccl.Result { *n = int32(of(c)); return nccl.Success })
		}
	}
	t.CommCount = number("ncclCommCount", func(c *comm) int { return c.world.size })
	t.CommUserRank = number("ncclCommUserRank", func(c *comm) int { return c.rank })
	t.CommCuDevice = number("ncclCommCuDevice", func(c *comm) int { return c.device.Index() })
	t.CommGetAsyncError = func(h nccl.CommHandle, r *nccl.Result) nccl.Result {
		return s.of("ncclCommGetAsyncError", h, func(c *comm) nccl.Result {
			if *r = c.async; c.progress > 0 || c.world.joined < c.world.size {
				c.progress--
				*r = nccl.InProgress
			}
			return nccl.Success
		})
	}
	end := func(function string, abort bool) func(nccl.CommHandle) nccl.Result {
		return func(h nccl.CommHandle) nccl.Result {
			return s.of(function, h, func(c *comm) nccl.Result {
				c.aborted = abort
				delete(s.comms, h)
				s.changed.Broadcast()
				return nccl.Success
			})
		}
	}
	t.CommSplit = func(h nccl.CommHandle, color, key int, to *nccl.CommHandle, _ *nccl.RawConfig) nccl.Result {
		return s.of("ncclCommSplit", h, func(c *comm) nccl.Result { return s.split(c, color, key, to) })
	}
	t.CommInitRankScalable = func(to *nccl.CommHandle, size, rank int, ids []nccl.UniqueID, _ *nccl.RawConfig) nccl.Result {
		return s.locked("ncclCommInitRankScalable", func() nccl.Result { return s.joinAndWait(to, size, ids[0], rank) })
	}
	t.CommDestroy, t.CommAbort = end("ncclCommDestroy", false), end("ncclCommAbort", true)
	t.CommFinalize = func(h nccl.CommHandle) nccl.Result {
		return s.of("ncclCommFinalize", h, func(*comm) nccl.Result { return nccl.Success })
	}
}

// joinAndWait joins a communicator and waits until all ranks have. The caller holds s.mu.
func (s *Sim) joinAndWait(to *nccl.CommHandle, size int, id nccl.UniqueID, rank int) nccl.Result {
	c, r := s.join(id, rank, size, to)
	for r == nccl.Success && c.world.joined < size && !c.aborted {
		s.changed.Wait()
	}
	return r
}

// firstFactor is the number of the first reduction that a program makes.
const firstFactor = 100

func (s *Sim) bindReductions(t *nccl.Table) {
	t.RedOpCreatePreMulSum = func(op *nccl.Op, at unsafe.Pointer, d nccl.DType, residence int, h nccl.CommHandle) nccl.Result {
		return s.of("ncclRedOpCreatePreMulSum", h, func(*comm) nccl.Result {
			f, err := newFactor(at, dtypes[d], residence)
			if err != nil {
				return nccl.InvalidArgument
			}
			s.numbers++
			*op = firstFactor + nccl.Op(s.numbers)
			s.factors[*op] = f
			return nccl.Success
		})
	}
	t.RedOpDestroy = func(op nccl.Op, h nccl.CommHandle) nccl.Result {
		return s.of("ncclRedOpDestroy", h, func(*comm) nccl.Result {
			delete(s.factors, op) // calls have it
			return nccl.Success
		})
	}
	reducing := func(function string, k kind, in, out cuda.Pointer, ins, outs, n int, d nccl.DType, op nccl.Op, root int, h nccl.CommHandle,
		stream cuda.Stream) nccl.Result {
		return s.of(function, h, func(c *comm) nccl.Result {
			factor, premultiplied := s.factors[op]
			if op > nccl.Avg && !premultiplied {
				return nccl.InvalidArgument
			}
			elem := dtypes[d].Size()
			x := &call{comm: c, kind: k, in: in, out: out, ins: ins * n * elem, outs: outs * n * elem, dtype: d, op: op, root: root, stream: stream}
			if premultiplied {
				x.op, x.factor = nccl.Sum, factor
			}
			return s.submit(x)
		})
	}
	t.AllReduce = func(in, out cuda.Pointer, n int, d nccl.DType, op nccl.Op, h nccl.CommHandle, stream cuda.Stream) nccl.Result {
		return reducing("ncclAllReduce", allReduce, in, out, 1, 1, n, d, op, 0, h, stream)
	}
	t.Reduce = func(in, out cuda.Pointer, n int, d nccl.DType, op nccl.Op, root int, h nccl.CommHandle, stream cuda.Stream) nccl.Result {
		outs := 0
		if s.rankOf(h) == root {
			outs = 1
		}
		return reducing("ncclReduce", reduce, in, out, 1, outs, n, d, op, root, h, stream)
	}
	t.ReduceScatter = func(in, out cuda.Pointer, n int, d nccl.DType, op nccl.Op, h nccl.CommHandle, stream cuda.Stream) nccl.Result {
		return reducing("ncclReduceScatter", reduceScatter, in, out, s.sizeOf(h), 1, n, d, op, 0, h, stream)
	}
}

func (s *Sim) bindMoves(t *nccl.Table) {
	moving := func(function string, k kind, in, out cuda.Pointer, ins, outs, n int, d nccl.DType, peer int, h nccl.CommHandle,
		stream cuda.Stream) nccl.Result {
		return s.of(function, h, func(c *comm) nccl.Result {
			elem := dtypes[d].Size()
			return s.submit(&call{comm: c, kind: k, in: in, out: out, ins: ins * n * elem, outs: outs * n * elem, dtype: d, root: peer, stream: stream})
		})
	}
	t.AllGather = func(in, out cuda.Pointer, n int, d nccl.DType, h nccl.CommHandle, stream cuda.Stream) nccl.Result {
		return moving("ncclAllGather", allGather, in, out, 1, s.sizeOf(h), n, d, 0, h, stream)
	}
	cast := func(function string, in, out cuda.Pointer, n int, d nccl.DType, root int, h nccl.CommHandle, stream cuda.Stream) nccl.Result {
		ins := 0
		if s.rankOf(h) == root {
			ins = 1
		}
		return moving(function, broadcast, in, out, ins, 1, n, d, root, h, stream)
	}
	t.Broadcast = func(in, out cuda.Pointer, n int, d nccl.DType, root int, h nccl.CommHandle, stream cuda.Stream) nccl.Result {
		return cast("ncclBroadcast", in, out, n, d, root, h, stream)
	}
	t.Bcast = func(at cuda.Pointer, n int, d nccl.DType, root int, h nccl.CommHandle, stream cuda.Stream) nccl.Result {
		return cast("ncclBcast", at, at, n, d, root, h, stream)
	}
	t.Send = func(in cuda.Pointer, n int, d nccl.DType, peer int, h nccl.CommHandle, stream cuda.Stream) nccl.Result {
		return moving("ncclSend", send, in, 0, 1, 0, n, d, peer, h, stream)
	}
	t.Recv = func(out cuda.Pointer, n int, d nccl.DType, peer int, h nccl.CommHandle, stream cuda.Stream) nccl.Result {
		return moving("ncclRecv", recv, 0, out, 0, 1, n, d, peer, h, stream)
	}
}

// rankOf and sizeOf tell of a communicator; -1 and 0 of one that there is not.
func (s *Sim) rankOf(h nccl.CommHandle) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.comms[h]; c != nil {
		return c.rank
	}
	return -1
}

func (s *Sim) sizeOf(h nccl.CommHandle) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.comms[h]; c != nil {
		return c.world.size
	}
	return 0
}

// dtypes are the library's element types as colligo has them.
var dtypes = map[nccl.DType]colligo.DType{nccl.Int8: colligo.Int8, nccl.Uint8: colligo.Uint8, nccl.Int32: colligo.Int32,
	nccl.Uint32: colligo.Uint32, nccl.Int64: colligo.Int64, nccl.Uint64: colligo.Uint64, nccl.Float16: colligo.Float16,
	nccl.Float32: colligo.Float32, nccl.Float64: colligo.Float64, nccl.BFloat16: colligo.BFloat16,
	nccl.Float8E4M3: colligo.Float8E4M3FN, nccl.Float8E5M2: colligo.Float8E5M2}

// kinds are the library's reductions as colligo has them.
var kinds = map[nccl.Op]colligo.OpKind{nccl.Sum: colligo.KindSum, nccl.Prod: colligo.KindProd, nccl.Max: colligo.KindMax,
	nccl.Min: colligo.KindMin, nccl.Avg: colligo.KindAvg}

// kernel returns the reduction of a call.
func (x *call) kernel() (*kernels.Kernel, error) {
	k, err := kernels.Lookup(dtypes[x.dtype], kinds[x.op])
	if err != nil {
		return nil, fmt.Errorf("ncclsim: %w", err)
	}
	return k, nil
}
