package ncclsim

import (
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/kernels"
)

// table returns the functions as a process has them, whose driver is given.
func (s *Sim) table(in *cuda.Driver) nccl.Table {
	var t nccl.Table
	s.bindMaking(&t, in)
	s.bindComms(&t)
	s.bindMemory(&t, in)
	s.bindReductions(&t)
	s.bindMoves(&t)
	t.GetVersion = func(v *int32) nccl.Result { *v = int32(s.version); return nccl.Success }
	t.GetErrorString = func(r nccl.Result) string { return "simulated " + r.String() }
	t.GetLastError = func(nccl.CommHandle) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.last
	}
	t.GetUniqueId = func(id *nccl.UniqueID) nccl.Result {
		return s.locked("ncclGetUniqueId", func() nccl.Result { *id = newID(); return nccl.Success })
	}
	t.GroupStart = func() nccl.Result { return s.locked("ncclGroupStart", s.groupStart) }
	t.GroupEnd = func() nccl.Result { return s.locked("ncclGroupEnd", s.groupEnd) }
	s.gate(&t)
	return t
}

// gate takes away what comes with a later version.
func (s *Sim) gate(t *nccl.Table) {
	if s.version < 2700 {
		t.Send, t.Recv = nil, nil
	}
	if s.version < 21100 {
		t.RedOpCreatePreMulSum, t.RedOpDestroy = nil, nil
	}
	if s.version < 21300 {
		t.GetLastError = nil
	}
	if s.version < 21400 {
		t.CommInitRankConfig, t.CommFinalize = nil, nil
	}
	if s.version < 21800 {
		t.CommSplit = nil
	}
	if s.version < 21900 {
		t.CommRegister, t.CommDeregister, t.MemAlloc, t.MemFree = nil, nil, nil, nil
	}
	if s.version < 22300 {
		t.CommInitRankScalable = nil
	}
	if s.version < 22700 {
		t.CommWindowRegister, t.CommWindowDeregister, t.CommShrink = nil, nil, nil
	}
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

func (s *Sim) bindMaking(t *nccl.Table, in *cuda.Driver) {
	t.CommInitRank = func(to *nccl.CommHandle, size int, id *nccl.UniqueID, rank int) nccl.Result {
		return s.locked("ncclCommInitRank", func() nccl.Result { return s.made("ncclCommInitRank", in, to, size, *id, rank, nil) })
	}
	t.CommInitRankConfig = func(to *nccl.CommHandle, size int, id *nccl.UniqueID, rank int, config *nccl.RawConfig) nccl.Result {
		return s.locked("ncclCommInitRankConfig", func() nccl.Result {
			return s.made("ncclCommInitRankConfig", in, to, size, *id, rank, config)
		})
	}
	t.CommInitRankScalable = func(to *nccl.CommHandle, size, rank int, ids []nccl.UniqueID, config *nccl.RawConfig) nccl.Result {
		return s.locked("ncclCommInitRankScalable", func() nccl.Result {
			return s.made("ncclCommInitRankScalable", in, to, size, ids[0], rank, config)
		})
	}
	t.CommInitAll = func(to []nccl.CommHandle, devices []int32) nccl.Result {
		return s.locked("ncclCommInitAll", func() nccl.Result { return s.all(in, to, devices) })
	}
	part := func(function string, h nccl.CommHandle, to *nccl.CommHandle, config *nccl.RawConfig, f func(c *comm) nccl.Result) nccl.Result {
		return s.of(function, h, func(c *comm) nccl.Result {
			if config != nil {
				s.configs = append(s.configs, config.Config())
			}
			r := f(c)
			if made := s.comms[*to]; r == nccl.Success && made != nil {
				made.nonBlocking = config == nil && c.nonBlocking || config != nil && !config.Blocks()
			}
			return r
		})
	}
	t.CommSplit = func(h nccl.CommHandle, color, key int, to *nccl.CommHandle, config *nccl.RawConfig) nccl.Result {
		return part("ncclCommSplit", h, to, config, func(c *comm) nccl.Result { return s.split(c, color, key, to) })
	}
	t.CommShrink = func(h nccl.CommHandle, without []int32, to *nccl.CommHandle, config *nccl.RawConfig, flags int) nccl.Result {
		return part("ncclCommShrink", h, to, config, func(c *comm) nccl.Result { return s.shrink(c, without, to, flags) })
	}
}

// made makes a rank's communicator, without a configuration if that is nil. The caller holds s.mu.
func (s *Sim) made(function string, in *cuda.Driver, to *nccl.CommHandle, size int, id nccl.UniqueID, rank int, config *nccl.RawConfig) nccl.Result {
	if config != nil {
		s.configs = append(s.configs, config.Config())
	}
	if config.Blocks() {
		s.hang(function, nil)
		return s.joinAndWait(in, to, size, id, rank)
	}
	c, r := s.join(in, id, rank, size, to)
	if r != nccl.Success {
		return r
	}
	c.nonBlocking, c.progress = true, progressing
	s.hang(function, c)
	return nccl.InProgress
}

func (s *Sim) bindComms(t *nccl.Table) {
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
			if *r = c.async; c.progress > 0 || c.stuck || c.world.joined < c.world.size {
				c.progress--
				*r = nccl.InProgress
			}
			return nccl.Success
		})
	}
	end := func(function string, abort bool) func(nccl.CommHandle) nccl.Result {
		return func(h nccl.CommHandle) nccl.Result {
			var last []*cuda.Device
			r := s.of(function, h, func(c *comm) nccl.Result {
				s.hang(function, c)
				c.aborted, c.destroyed = abort, true
				delete(s.comms, h)
				s.changed.Broadcast()
				p := c.world.processes[c.device.Driver()]
				if p.present--; p.present == 0 && !abort {
					last = p.devices
				}
				return nccl.Success
			})
			for _, d := range last { // without the lock, for an operation that keeps a device at work needs it
				if err := waitIdle(d); err != nil {
					return nccl.UnhandledCudaError
				}
			}
			return r
		}
	}
	t.CommDestroy, t.CommAbort = end("ncclCommDestroy", false), end("ncclCommAbort", true)
	t.CommFinalize = func(h nccl.CommHandle) nccl.Result {
		return s.of("ncclCommFinalize", h, func(*comm) nccl.Result { return nccl.Success })
	}
}

// waitIdle waits until a device is idle, as the driver does where memory is freed.
func waitIdle(d *cuda.Device) error {
	t, err := d.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	at, err := t.Alloc(1)
	if err != nil {
		return err
	}
	return t.Free(at)
}

// joinAndWait joins a communicator and waits until all ranks have. In a group of calls the end of the group waits. The caller holds s.mu.
func (s *Sim) joinAndWait(in *cuda.Driver, to *nccl.CommHandle, size int, id nccl.UniqueID, rank int) nccl.Result {
	c, r := s.join(in, id, rank, size, to)
	if r != nccl.Success {
		return r
	}
	if g := s.groups[cudasim.ThreadID()]; g != nil {
		g.made = append(g.made, c)
		return nccl.Success
	}
	s.complete(c)
	return nccl.Success
}

// complete waits until all ranks have joined a communicator. The caller holds s.mu.
func (s *Sim) complete(c *comm) {
	for c.world.joined < c.world.size && !c.aborted && !s.closing {
		s.changed.Wait()
	}
}

func (s *Sim) bindMemory(t *nccl.Table, in *cuda.Driver) {
	t.CommRegister = func(h nccl.CommHandle, _ cuda.Pointer, _ int, to *nccl.MemoryHandle) nccl.Result {
		return s.of("ncclCommRegister", h, func(c *comm) nccl.Result {
			s.numbers++
			*to = nccl.MemoryHandle(s.numbers)
			c.registered[*to] = true
			return nccl.Success
		})
	}
	t.CommDeregister = func(h nccl.CommHandle, m nccl.MemoryHandle) nccl.Result {
		return s.of("ncclCommDeregister", h, func(c *comm) nccl.Result { return c.forget(m) })
	}
	t.CommWindowRegister = func(h nccl.CommHandle, _ cuda.Pointer, _ int, to *nccl.WindowHandle, _ int) nccl.Result {
		return s.of("ncclCommWindowRegister", h, func(c *comm) nccl.Result {
			c.windows++
			number := c.windows
			c.world.windows[number]++
			s.changed.Broadcast()
			for c.world.windows[number] < c.world.size && !c.aborted {
				s.changed.Wait()
			}
			s.numbers++
			*to = nccl.WindowHandle(s.numbers)
			c.registered[nccl.MemoryHandle(*to)] = true
			return nccl.Success
		})
	}
	t.CommWindowDeregister = func(h nccl.CommHandle, w nccl.WindowHandle) nccl.Result {
		return s.of("ncclCommWindowDeregister", h, func(c *comm) nccl.Result { return c.forget(nccl.MemoryHandle(w)) })
	}
	t.MemAlloc = func(to *cuda.Pointer, bytes int) nccl.Result {
		return s.locked("ncclMemAlloc", func() nccl.Result { return s.alloc(in, to, bytes) })
	}
	t.MemFree = func(at cuda.Pointer) nccl.Result {
		return s.locked("ncclMemFree", func() nccl.Result { return s.free(at) })
	}
}

// forget ends a registration.
func (c *comm) forget(m nccl.MemoryHandle) nccl.Result {
	if !c.registered[m] {
		return nccl.InvalidArgument
	}
	delete(c.registered, m)
	return nccl.Success
}

// alloc takes memory of a process's current device. The caller holds s.mu.
func (s *Sim) alloc(in *cuda.Driver, to *cuda.Pointer, bytes int) nccl.Result {
	d, err := s.current(in)
	if err != nil {
		return nccl.UnhandledCudaError
	}
	t, err := d.Enter()
	if err != nil {
		return nccl.UnhandledCudaError
	}
	defer t.Leave()
	if *to, err = t.Alloc(bytes); err != nil {
		return nccl.UnhandledCudaError
	}
	s.memory[*to] = d
	return nccl.Success
}

// free gives memory of alloc back. The caller holds s.mu.
func (s *Sim) free(at cuda.Pointer) nccl.Result {
	d := s.memory[at]
	if d == nil {
		return nccl.InvalidArgument
	}
	delete(s.memory, at)
	t, err := d.Enter()
	if err != nil {
		return nccl.UnhandledCudaError
	}
	defer t.Leave()
	s.mu.Unlock() // the device's work is waited for, and needs the lock
	err = t.Free(at)
	s.mu.Lock()
	if err != nil {
		return nccl.UnhandledCudaError
	}
	return nccl.Success
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
			if op > nccl.Avg && !premultiplied || op == nccl.Avg && s.version < 21000 || s.lacks(d) {
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
			if s.lacks(d) {
				return nccl.InvalidArgument
			}
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

// lacks reports whether an element type comes with a later version.
func (s *Sim) lacks(d nccl.DType) bool {
	return d == nccl.BFloat16 && s.version < 21000 || d >= nccl.Float8E4M3 && s.version < 22400
}

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
