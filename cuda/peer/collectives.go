package peer

import (
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

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
	o.part, o.window = up((o.bytes+x.size-1)/x.size, 16), x.heap.Window(o.out, o.bytes)
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
	o.in, o.window = o.out, x.heap.Window(o.out, o.bytes)
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
		if o.window = x.heap.Window(o.out, o.Out.Size()); o.window != nil {
			o.offset = o.DType.Size() * o.shape(x.rank, x.size).PartOff(x.rank)
		}
	}
	if x.size == 1 {
		a := x.layExchange(o)
		return x.copy(o.t, cuda.Pointer(a.Recv[0]), cuda.Pointer(a.Send[0]), int(a.SendBytes[0]), o.s)
	}
	return x.run(o)
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
