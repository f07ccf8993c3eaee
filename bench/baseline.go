package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// baseline is this rank's part of the NCCL communicator that a measurement compares with.
type baseline struct {
	library *nccl.Library
	comm    *nccl.Comm
	gpu     *gpu
	version string
	nvls    string // what the environment says
	noted   bool   // the memory is registered
}

// registrationSince is the first version that can register memory.
const registrationSince = 21900

// register registers memory with the communicator, if the library can.
func (v *baseline) register(at cuda.Pointer, bytes int) error {
	return v.gpu.onDevice(func(cuda.Thread) (err error) {
		if v.noted = v.library.VersionCode() >= registrationSince; v.noted {
			_, err = v.comm.Register(at, bytes) // until the communicator ends
		}
		return err
	})
}

// openBaseline joins a communicator of the group's ranks. All ranks call it.
func openBaseline(ctx context.Context, g *pg.Group, d *gpu, path, nvls string) (*baseline, error) {
	l, err := nccl.Open(path)
	if err != nil {
		return nil, err
	}
	v := &baseline{library: l, gpu: d, nvls: nvls, version: l.Version()}
	id := new(nccl.UniqueID)
	if g.Rank() == 0 {
		if id, err = l.NewUniqueID(); err != nil {
			return nil, err
		}
	}
	if err := g.Broadcast(ctx, colligo.Of(id[:]), 0); err != nil {
		return nil, err
	}
	return v, d.onDevice(func(cuda.Thread) error {
		v.comm, err = l.NewComm(id, g.Rank(), g.Size(), nccl.Config{})
		return err
	})
}

// close leaves the communicator. After a failure nobody waits for the others.
func (v *baseline) close(failed bool) error {
	if v == nil {
		return nil
	}
	return v.gpu.onDevice(func(cuda.Thread) error {
		if failed {
			return v.comm.Abort()
		}
		return v.comm.Close()
	})
}

// hasBaseline reports whether NCCL has an operation that does the same, as package nccl binds it.
func (c testCase) hasBaseline() bool {
	switch c.coll {
	case barrier:
		return true
	case plan.Gather, plan.Scatter:
		return false
	}
	switch c.dtype {
	case colligo.Int16, colligo.Complex64, colligo.Complex128:
		return false
	}
	if !c.reduces {
		return true
	}
	switch c.op.Kind() {
	case colligo.KindSum, colligo.KindProd, colligo.KindMin, colligo.KindMax, colligo.KindAvg:
		return c.dtype != colligo.Bool // NCCL would add bytes
	}
	return false
}

// sameResult reports whether NCCL's result has to be the same bit for bit. Its averages are rounded elsewhere.
func (c testCase) sameResult() bool {
	return c.hasBaseline() && !(c.reduces && c.op.Kind() == colligo.KindAvg)
}

// call returns a function that does the same as a trial with NCCL, with the same tensors on the same stream. It must be
// called with the device current, but for the barrier, which sees to that itself.
func (v *baseline) call(b *binding, t trial) func(ctx context.Context) error {
	s := v.gpu.stream
	var in, out cuda.Pointer
	if t.in.Valid() {
		in, out = cuda.Pointer(t.in.Addr()), cuda.Pointer(t.out.Addr())
	}
	switch b.coll {
	case plan.AllReduce:
		return v.reducing(b, func(r nccl.Reduction) error { return v.comm.AllReduce(in, out, b.count, r, s) })
	case plan.Reduce:
		return v.reducing(b, func(r nccl.Reduction) error { return v.comm.Reduce(in, out, b.count, r, b.root, s) })
	case plan.ReduceScatter:
		return v.reducing(b, func(r nccl.Reduction) error { return v.comm.ReduceScatter(in, out, b.count, r, s) })
	case plan.AllGather:
		return func(context.Context) error { return v.comm.AllGather(in, out, b.count, b.dtype, s) }
	case plan.AllToAll:
		outs, ins := make([]nccl.Part, b.ranks), make([]nccl.Part, b.ranks)
		for q := range b.ranks {
			at := cuda.Pointer(q * b.count * b.dtype.Size())
			outs[q], ins[q] = nccl.Part{At: out + at, Count: b.count}, nccl.Part{At: in + at, Count: b.count}
		}
		return func(context.Context) error { return v.comm.Exchange(outs, ins, b.dtype, s) }
	case plan.Broadcast:
		return func(context.Context) error { return v.comm.Broadcast(in, out, b.count, b.dtype, b.root, s) }
	case plan.Send:
		next, before := b.neighbours()
		return func(context.Context) error {
			return v.comm.Group(func() error {
				return errors.Join(v.comm.Send(in, b.count, b.dtype, next, s), v.comm.Recv(out, b.count, b.dtype, before, s))
			})
		}
	}
	return v.barrier()
}

// reducing returns a function that calls one with the reduction of a measurement.
func (v *baseline) reducing(b *binding, call func(r nccl.Reduction) error) func(ctx context.Context) error {
	r, err := v.comm.Reduction(b.dtype, b.op.Kind())
	if err != nil {
		return func(context.Context) error { return err }
	}
	return func(context.Context) error { return call(r) }
}

// barrier is what PyTorch's process group of NCCL does for one: an all_reduce of an element, and the host waits for it.
func (v *baseline) barrier() func(ctx context.Context) error {
	word := v.gpu.stretches[inputs]
	sum, err := v.comm.Reduction(colligo.Float32, colligo.KindSum)
	return func(context.Context) error {
		if err != nil {
			return err
		}
		return v.gpu.onDevice(func(t cuda.Thread) error {
			if err := v.comm.AllReduce(word, word, 1, sum, v.gpu.stream); err != nil {
				return err
			}
			return t.Synchronize(v.gpu.stream)
		})
	}
}

// String says which library it is.
func (v *baseline) String() string { return fmt.Sprintf("NCCL %s (%s)", v.version, v.library.Path) }
