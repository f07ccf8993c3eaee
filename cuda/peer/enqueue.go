package peer

import (
	"context"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	seam "github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// Check implements streamorder.Carrier. It refuses tensors that the device cannot reach.
func (b *backend) Check(_ cuda.Thread, c *seam.Call, _ cuda.Stream) error { return b.check.Call(c) }

// Enqueue implements streamorder.Carrier.
func (b *backend) Enqueue(ctx context.Context, t cuda.Thread, c *seam.Call, s cuda.Stream) error {
	o := &b.op
	switch c.Coll {
	case plan.Send:
		return b.messages.send(t, c, s)
	case plan.Recv:
		return b.messages.receive(t, c, s)
	case plan.Barrier: // its Pending marks the end of the operations before; the ranks meet elsewhere
		return nil
	}
	o.begin(ctx, t, c, s)
	switch c.Coll {
	case plan.AllReduce:
		return b.allReduce(o)
	case plan.ReduceScatter:
		return b.reduceScatter(o)
	case plan.Reduce:
		return b.reduce(o)
	case plan.Broadcast:
		return b.broadcast(o)
	case plan.AllGather, plan.AllToAll, plan.Gather, plan.Scatter:
		return b.exchange(o)
	}
	return fmt.Errorf("%v has no form on a device", c.Coll)
}

// operation is the collective at hand, as algorithms see it. A launcher has one, which each call fills in anew.
type operation struct {
	*seam.Call
	ctx context.Context
	t   cuda.Thread
	s   cuda.Stream

	in, out cuda.Pointer
	bytes   int             // those of Rule.MaxBytes: of the tensor of all_reduce, broadcast and reduce, else of the longest part
	part    int             // of all_reduce: the bytes of a rank's part, a multiple of 16
	extent  int             // of the output, in bytes; 0 if no algorithm may use its registered memory
	offset  int             // of all_gather and all_to_all: where this rank's part lies in a peer's output, if there is a window
	even    bool            // every rank sends each peer as many bytes
	laid    bool            // the arrays of arguments are filled in already
	window  *symheap.Window // the registered memory that the output lies in, once a rule has asked for it
	rule    *Rule           // chosen for the operation
}

// begin makes o the operation of a call. Field by field: a struct of this size that is assigned as a whole is made elsewhere
// first.
func (o *operation) begin(ctx context.Context, t cuda.Thread, c *seam.Call, s cuda.Stream) {
	o.Call, o.ctx, o.t, o.s = c, ctx, t, s
	o.in, o.out, o.bytes, o.part, o.extent, o.offset = 0, 0, 0, 0, 0, 0
	o.even, o.laid, o.window, o.rule = false, false, nil, nil
}

// captured reports whether a graph captures the operation.
func (o *operation) captured() bool {
	if o.t.Device == nil {
		return false
	}
	yes, _, err := streamorder.Capture(o.t, o.s)
	return yes && err == nil
}

// allReduce has every rank get the sum of all tensors. A premultiplied sum multiplies in the output first.
func (x *launcher) allReduce(o *operation) error {
	if o.bytes = o.Count * o.DType.Size(); o.bytes == 0 {
		return nil
	}
	o.in, o.out = devmem.Address(o.In), devmem.Address(o.Out)
	if o.Op.Kind() == colligo.KindPremulSum {
		if err := x.multiply(o, o.out, o.in, o.bytes); err != nil {
			return err
		}
		o.in = o.out
	}
	if x.size == 1 {
		return x.copy(o.t, o.out, o.in, o.bytes, o.s)
	}
	o.part, o.extent = up((o.bytes+x.size-1)/x.size, 16), o.bytes
	return x.run(o)
}

// broadcast has every rank get the root's tensor.
func (x *launcher) broadcast(o *operation) error {
	tensor := o.Out
	if x.rank == o.Root {
		tensor = o.In
	}
	if o.bytes = o.Count * o.DType.Size(); x.size == 1 || o.bytes == 0 {
		return nil
	}
	o.out = devmem.Address(tensor)
	o.in, o.extent = o.out, o.bytes
	return x.run(o)
}

// reduceScatter has every rank get the sum of its part of all tensors: (n-1)/n of all parts' bytes are stored.
func (x *launcher) reduceScatter(o *operation) error {
	o.bytes, o.even = o.longest(), o.Counts == nil
	return x.reduceParts(o)
}

// reduce is a reduceScatter in which all parts except the root's are empty.
func (x *launcher) reduce(o *operation) error {
	o.bytes = o.Count * o.DType.Size()
	return x.reduceParts(o)
}

func (x *launcher) reduceParts(o *operation) error {
	if o.bytes == 0 {
		return nil
	}
	o.in, o.out = devmem.Address(o.In), devmem.Address(o.Out)
	if o.Op.Kind() == colligo.KindPremulSum {
		return x.scaled(o)
	}
	if x.size == 1 {
		x.layParts(o)
		return x.copy(o.t, o.out, cuda.Pointer(x.args.scatter.Offset[0]), o.bytes, o.s)
	}
	return x.run(o)
}

// layParts has the arguments of a reduce_scatter say where the parts lie. Offsets there are addresses.
func (x *launcher) layParts(o *operation) {
	a := &x.args.scatter
	a.In, a.Out, a.Divisor = 0, uint64(devmem.Address(o.Out)), x.divisor(o.Op)
	if o.laid {
		return
	}
	o.laid = true
	if o.Coll == plan.Reduce {
		clear(a.Bytes[:])
		d := x.peerIndex(o.Root)
		a.Offset[d], a.Bytes[d] = uint64(o.in), uint64(o.bytes)
		return
	}
	shape, in := o.shape(x.rank, x.size), devmem.Parts{One: o.In, List: o.Ins, Elem: o.DType.Size()}
	for q := range x.size {
		d := x.peerIndex(q)
		a.Offset[d], a.Bytes[d] = uint64(in.At(q, shape.PartOff(q))), uint64(in.Elem*shape.PartLen(q))
	}
}

// unknownBytes stands for the longest part where the lengths of an exchange differ and only pairs of ranks know theirs.
const unknownBytes = 1 << 30

// exchange carries out the collectives that only move: every rank sends each peer one range of bytes, or none, and receives
// one.
func (x *launcher) exchange(o *operation) error {
	if o.bytes = o.longest(); o.RecvCounts != nil {
		o.bytes = unknownBytes
	}
	if o.bytes == 0 {
		return nil
	}
	if o.Coll == plan.AllGather || o.Coll == plan.AllToAll && o.RecvCounts == nil {
		o.even = o.Counts == nil && o.RecvCounts == nil
		o.in, o.out = devmem.Address(o.In), devmem.Address(o.Out)
		o.extent = o.Out.Size()
	}
	if x.size == 1 {
		a := x.layExchange(o)
		return x.copy(o.t, cuda.Pointer(a.Recv[0]), cuda.Pointer(a.Send[0]), int(a.SendBytes[0]), o.s)
	}
	return x.run(o)
}

// registered finds the registered memory that has all of an operation's output. It reports whether the output lies there at a
// multiple of 16 on all ranks. Algorithms use the memory by rules that ask for it alone, so other operations do without the
// search.
func (x *launcher) registered(o *operation) bool {
	if o.window == nil && o.extent > 0 {
		o.window = x.heap.Window(o.out, o.extent)
		if o.window == nil {
			o.extent = 0
		} else if o.Coll == plan.AllGather || o.Coll == plan.AllToAll {
			o.offset = o.DType.Size() * o.shape(x.rank, x.size).PartOff(x.rank)
		}
	}
	return o.window != nil && o.window.Aligned(o.out, 16)
}

// layAllReduce fills in the arguments of an all-reduce by the heap.
func (x *launcher) layAllReduce(o *operation) *ptx.AllReduceArgs {
	a := &x.args.allReduce
	a.In, a.Out, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(o.out), uint64(o.bytes), uint64(o.part), x.divisor(o.Op)
	return a
}

// longest returns the bytes of the longest part.
func (o *operation) longest() int {
	n := o.Count
	if o.Counts != nil {
		n = slices.Max(o.Counts)
	}
	return n * o.DType.Size()
}

// shape returns the operation as plans describe it.
func (o *operation) shape(rank, size int) plan.Shape {
	return plan.Shape{Coll: o.Coll, Rank: rank, Size: size, Root: o.Root, Count: o.Count, Counts: o.Counts, RecvCounts: o.RecvCounts}
}

// divisor returns the number by which sums are divided, 0 for none.
func (x *launcher) divisor(op colligo.ReduceOp) uint32 {
	if op.Kind() == colligo.KindAvg {
		return uint32(x.size)
	}
	return 0
}
