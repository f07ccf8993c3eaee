package peer

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	seam "github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// operation is the collective at hand, as algorithms see it. A launcher has one, which each call fills in anew.
type operation struct {
	*seam.Call
	ctx context.Context
	t   cuda.Thread
	s   cuda.Stream

	in, out cuda.Pointer
	bytes   int             // those of Rule.MaxBytes: of the tensor of all_reduce, broadcast and reduce, else of the longest part
	part    int             // of all_reduce: the bytes of a rank's part, a multiple of 16
	offset  int             // of all_gather and all_to_all: where this rank's part lies in a peer's output
	even    bool            // every rank sends each peer as many bytes
	laid    bool            // the arrays of arguments are filled in already
	window  *symheap.Window // the registered memory that the output lies in; nil if there is none, or an algorithm may not use it
	rule    *Rule           // chosen for the operation
}

// begin makes o the operation of a call. Field by field: a struct of this size that is assigned as a whole is made elsewhere
// first.
func (o *operation) begin(ctx context.Context, t cuda.Thread, c *seam.Call, s cuda.Stream) {
	o.Call, o.ctx, o.t, o.s = c, ctx, t, s
	o.in, o.out, o.bytes, o.part, o.offset = 0, 0, 0, 0, 0
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
