package peer

import (
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// layExchange fills in the ranges of bytes that go to each rank, and those that come from it.
func (x *launcher) layExchange(o *operation) *ptx.ExchangeArgs {
	a := &x.args.exchange
	if o.laid {
		return a
	}
	o.laid = true
	clear(a.SendBytes[:])
	clear(a.RecvBytes[:])
	if o.Coll == plan.Broadcast {
		x.layBroadcast(o)
		return a
	}
	shape, elem := o.shape(x.rank, x.size), o.DType.Size()
	in, out := devmem.Parts{One: o.In, List: o.Ins, Elem: elem}, devmem.Parts{One: o.Out, List: o.Outs, Elem: elem}
	for q := range x.size {
		switch o.Coll {
		case plan.AllGather:
			x.sends(q, in.Whole(), elem*shape.PartLen(x.rank))
			x.receives(q, out.At(q, shape.PartOff(q)), elem*shape.PartLen(q))
		case plan.AllToAll:
			x.sends(q, in.At(q, shape.PartOff(q)), elem*shape.PartLen(q))
			x.receives(q, out.At(q, shape.RecvOff(q)), elem*shape.RecvLen(q))
		case plan.Gather:
			if q == o.Root {
				x.sends(q, in.Whole(), elem*shape.PartLen(x.rank))
			}
			if x.rank == o.Root {
				x.receives(q, out.At(q, shape.PartOff(q)), elem*shape.PartLen(q))
			}
		case plan.Scatter:
			if x.rank == o.Root {
				x.sends(q, in.At(q, shape.PartOff(q)), elem*shape.PartLen(q))
			}
			if q == o.Root {
				x.receives(q, out.Whole(), elem*shape.PartLen(x.rank))
			}
		}
	}
	return a
}

// layBroadcast lays out a broadcast as an exchange, in which the root sends the tensor to every other rank.
func (x *launcher) layBroadcast(o *operation) {
	if x.rank != o.Root {
		x.receives(o.Root, o.out, o.bytes)
		return
	}
	for q := range x.size {
		if q != o.Root {
			x.sends(q, o.in, o.bytes)
		}
	}
}

// sends notes the bytes that go to a rank.
func (x *launcher) sends(q int, at cuda.Pointer, bytes int) {
	a, d := &x.args.exchange, x.peerIndex(q)
	a.Send[d], a.SendBytes[d] = uint64(at), uint64(bytes)
}

// receives notes where the bytes go that come from a rank.
func (x *launcher) receives(q int, at cuda.Pointer, bytes int) {
	a, d := &x.args.exchange, x.peerIndex(q)
	a.Recv[d], a.RecvBytes[d] = uint64(at), uint64(bytes)
}
