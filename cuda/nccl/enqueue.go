package nccl

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// Check implements streamorder.Carrier. It refuses tensors that the device cannot reach.
func (b *ncclBackend) Check(_ cuda.Thread, c *backend.Call, _ cuda.Stream) error {
	return b.check.Call(c)
}

// Refuses implements backend.Selective. It refuses reductions that the library does not have.
func (b *ncclBackend) Refuses(r backend.Reduction) error {
	switch {
	case b.planner(r) != nil, b.levels != nil && b.levels.takes(r):
		return nil
	case r.Kind != colligo.KindPremulSum:
		_, _, _, err := b.library.Reduced(r.DType, r.Kind)
		return err
	}
	if _, _, err := b.library.premultiplied(r.DType); err != nil {
		return err
	}
	if d := r.DType.Real(); ones[d] == nil {
		return errPremultiplied(d)
	}
	return nil
}

// Enqueue implements streamorder.Carrier. Parts of unequal lengths become a group of calls, one for each rank, as in c10d's
// process group.
func (b *ncclBackend) Enqueue(ctx context.Context, t cuda.Thread, c *backend.Call, s cuda.Stream) error {
	if b.blockErr != nil {
		return b.blockErr
	}
	peer, err := -1, error(nil)
	if c.Coll == plan.Send || c.Coll == plan.Recv {
		peer, err = c.Peer, b.message(ctx, c, s)
	} else {
		err = b.collective(ctx, t, c, s)
	}
	b.inside.leave()
	if err == nil {
		return nil
	}
	return b.blameCall(peer, err)
}

// collective enqueues a call that is no message.
func (b *ncclBackend) collective(ctx context.Context, t cuda.Thread, c *backend.Call, s cuda.Stream) error {
	if c.Coll == plan.Barrier && b.torch == nil {
		return nil // its Pending marks the end of the operations before; the ranks meet elsewhere
	}
	if err := b.communicate(ctx); err != nil {
		return err
	}
	b.inside.enter(c.Coll)
	if b.levels != nil || b.options.Plans != "" {
		if carried, err := b.otherwise(ctx, t, c, s); carried {
			return err
		}
	}
	switch c.Coll {
	case plan.Barrier:
		return b.barrier(t, s)
	case plan.AllReduce, plan.Reduce, plan.ReduceScatter:
		return b.reduce(t, c, s)
	case plan.Broadcast:
		at := devmem.Address(c.Out)
		if b.rank == c.Root {
			at = devmem.Address(c.In)
		}
		return b.main.Broadcast(at, at, c.Count, c.DType, c.Root, s)
	case plan.AllGather:
		return b.allGather(t, c, s)
	case plan.AllToAll, plan.Gather, plan.Scatter:
		outs, ins := b.parts(c)
		return b.main.Exchange(outs, ins, c.DType, s)
	}
	return fmt.Errorf("nccl: %v has no form on a device", c.Coll)
}

// otherwise enqueues a call that NCCL's own algorithm does not carry out, and reports whether it is one.
func (b *ncclBackend) otherwise(ctx context.Context, t cuda.Thread, c *backend.Call, s cuda.Stream) (carried bool, err error) {
	reduction := backend.ReductionOf(c, b.inBlock)
	if b.levels != nil {
		if b.levels.takes(reduction) {
			return true, b.levels.allReduce(ctx, c, s)
		}
		b.levels.flat.Add(1)
	}
	if planner := b.planner(reduction); planner != nil {
		return true, b.planned(t, c, b.shape(c), planner, s)
	}
	return false, nil
}

// shape returns what a plan knows of a call.
func (b *ncclBackend) shape(c *backend.Call) plan.Shape {
	return plan.Shape{Coll: c.Coll, Rank: b.rank, Size: b.size, Root: c.Root, Count: c.Count, Counts: c.Counts, RecvCounts: c.RecvCounts}
}

// barrier enqueues an all_reduce of one float32, which is what PyTorch's ranks call.
func (b *ncclBackend) barrier(t cuda.Thread, s cuda.Stream) error {
	one, err := b.scratch.take(t, colligo.Float32.Size(), s)
	if err != nil {
		return err
	}
	sum, err := b.main.Reduction(colligo.Float32, colligo.KindSum)
	return errors.Join(err, t.Set32(one, 0, 1, s), b.main.AllReduce(one, one, 1, sum, s))
}

// message enqueues a send or a receive: in a block on the group's communicator, else on that of the pair. Where PyTorch's ranks are
// bound to a device they have no other than the group's.
func (b *ncclBackend) message(ctx context.Context, c *backend.Call, s cuda.Stream) error {
	var comm *Comm
	peer := c.Peer
	if b.inBlock || b.torch != nil && b.torch.Bound {
		if err := b.communicate(ctx); err != nil {
			return err
		}
		comm = b.main
	} else {
		pair, me, err := b.pair(ctx, c.Peer)
		if err != nil {
			return err
		}
		comm, peer = pair, 1-me
	}
	b.inside.enter(c.Coll)
	if c.Coll == plan.Send {
		return comm.Send(devmem.Address(c.In), c.Count, c.DType, peer, s)
	}
	return comm.Recv(devmem.Address(c.Out), c.Count, c.DType, peer, s)
}

// reduce enqueues the collectives that reduce.
func (b *ncclBackend) reduce(t cuda.Thread, c *backend.Call, s cuda.Stream) error {
	r, err := b.reduction(c)
	if err != nil {
		return err
	}
	switch {
	case c.Coll == plan.AllReduce:
		err = b.main.AllReduce(devmem.Address(c.In), devmem.Address(c.Out), c.Count, r, s)
	case c.Coll == plan.Reduce:
		err = b.main.Reduce(devmem.Address(c.In), devmem.Address(c.Out), c.Count, r, c.Root, s)
	case c.Ins == nil && c.Counts == nil:
		err = b.main.ReduceScatter(devmem.Address(c.In), devmem.Address(c.Out), c.Count, r, s)
	case c.Counts == nil && !b.inBlock:
		err = b.reduceList(t, c, r, s)
	default:
		err = b.main.Group(func() error { return b.reduceParts(c, r, s) })
	}
	if r.comm == nil {
		return err
	}
	return errors.Join(err, r.Release())
}

// reduceParts reduces each rank's part to that rank.
func (b *ncclBackend) reduceParts(c *backend.Call, r Reduction, s cuda.Stream) error {
	shape := b.shape(c)
	in := devmem.Parts{One: c.In, List: c.Ins, Elem: c.DType.Size()}
	for q := range b.size {
		n := shape.PartLen(q)
		if n == 0 {
			continue
		}
		at := in.At(q, shape.PartOff(q))
		out := at // of no use elsewhere
		if q == b.rank {
			out = devmem.Address(c.Out)
		}
		if err := b.main.Reduce(at, out, n, r, q, s); err != nil {
			return err
		}
	}
	return nil
}

// reduction returns a call's reduction. One of a premultiplied sum is made anew for each call. A factor on the device is read
// there, when the call runs.
func (b *ncclBackend) reduction(c *backend.Call) (Reduction, error) {
	if c.Op.Kind() != colligo.KindPremulSum {
		return b.main.Reduction(c.DType, c.Op.Kind())
	}
	factor, by := c.Op.Factor()
	if by != nil && by.Device().Kind != colligo.CPU {
		return b.main.PremulSumOn(c.DType, devmem.Address(*by))
	}
	if by != nil {
		var err error
		if factor, err = kernels.Scalar(*by); err != nil {
			return Reduction{}, err
		}
	}
	bytes, err := factorBytes(c.DType.Real(), factor)
	if err != nil {
		return Reduction{}, err
	}
	return b.main.PremulSum(c.DType, bytes)
}

// ones are the number 1 in the element types of which there are premultiplied sums.
var ones = map[colligo.DType][]byte{
	colligo.Float64:  {0, 0, 0, 0, 0, 0, 0xf0, 0x3f},
	colligo.Float32:  {0, 0, 0x80, 0x3f},
	colligo.Float16:  {0, 0x3c},
	colligo.BFloat16: {0x80, 0x3f},
}

// errPremultiplied is the error of a premultiplied sum of an element type that has none, in c10d's words.
func errPremultiplied(d colligo.DType) error {
	return fmt.Errorf("nccl: PreMulSum Data type must be half, float, bfloat16 or double, not %v", d)
}

// factorBytes returns a number as an element of a floating point type, rounded as on the CPU.
func factorBytes(d colligo.DType, f float64) ([]byte, error) {
	one := ones[d]
	k, err := kernels.Lookup(d, colligo.KindPremulSum)
	if one == nil || err != nil {
		return nil, errPremultiplied(d)
	}
	b := make([]byte, len(one))
	k.Scale(b, one, f)
	return b, nil
}

// allGather enqueues an all-gather. Parts of unequal lengths are a group of broadcasts.
func (b *ncclBackend) allGather(t cuda.Thread, c *backend.Call, s cuda.Stream) error {
	in := devmem.Address(c.In)
	switch {
	case c.Outs == nil && c.Counts == nil:
		return b.main.AllGather(in, devmem.Address(c.Out), c.Count, c.DType, s)
	case c.Counts == nil && !b.inBlock:
		return b.gatherList(t, c, s)
	}
	shape, out := b.shape(c), devmem.Parts{One: c.Out, List: c.Outs, Elem: c.DType.Size()}
	return b.main.Group(func() error {
		for q := range b.size {
			n, to := shape.PartLen(q), out.At(q, shape.PartOff(q))
			if n == 0 {
				continue
			}
			from := to
			if q == b.rank {
				from = in
			}
			if err := b.main.Broadcast(from, to, n, c.DType, q, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// parts returns what this rank gets from and gives to each rank in an all-to-all, a gather or a scatter.
func (b *ncclBackend) parts(c *backend.Call) (outs, ins []Part) {
	shape, elem := b.shape(c), c.DType.Size()
	in, out := devmem.Parts{One: c.In, List: c.Ins, Elem: elem}, devmem.Parts{One: c.Out, List: c.Outs, Elem: elem}
	outs, ins = make([]Part, b.size), make([]Part, b.size)
	for q := range b.size {
		outs[q], ins[q] = noPart, noPart
	}
	for q := range b.size {
		switch {
		case c.Coll == plan.AllToAll:
			ins[q] = Part{in.At(q, shape.PartOff(q)), shape.PartLen(q)}
			outs[q] = Part{out.At(q, shape.RecvOff(q)), shape.RecvLen(q)}
		case c.Coll == plan.Gather && b.rank == c.Root:
			outs[q] = Part{out.At(q, shape.PartOff(q)), shape.PartLen(q)}
		case c.Coll == plan.Scatter && b.rank == c.Root:
			ins[q] = Part{in.At(q, shape.PartOff(q)), shape.PartLen(q)}
		}
	}
	switch c.Coll {
	case plan.Gather:
		ins[c.Root] = Part{in.Whole(), shape.PartLen(b.rank)}
	case plan.Scatter:
		outs[c.Root] = Part{out.Whole(), shape.PartLen(b.rank)}
	}
	return outs, ins
}

// BeginBlock implements streamorder.Carrier. The library launches the calls of a group together, so none waits for another.
func (b *ncclBackend) BeginBlock([]backend.Call) (together bool) {
	if b.blockErr = b.communicate(context.Background()); b.blockErr == nil { // within limits of its own
		b.blockErr = b.main.GroupStart()
	}
	b.inBlock = b.blockErr == nil
	return true
}

// EndBlock implements streamorder.Carrier.
func (b *ncclBackend) EndBlock(cuda.Thread, cuda.Stream) error {
	b.inBlock = false
	b.inside.enter(plan.AllReduce)
	defer b.inside.leave()
	return b.blameCall(-1, b.main.GroupEnd())
}

// DropBlock implements streamorder.Carrier.
func (b *ncclBackend) DropBlock() {
	if b.inBlock {
		_ = b.main.GroupEnd() // the block has failed, and its error is known
	}
	b.inBlock, b.blockErr = false, nil
}
