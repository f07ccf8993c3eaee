package peer

import (
	"context"
	"fmt"
	"strings"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
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
	offset  int             // of all_gather and all_to_all: where this rank's part lies in a peer's output, if there is a window
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

// BeginBlock implements streamorder.Carrier.
func (b *backend) BeginBlock(calls []seam.Call) (together bool) { return b.messages.begin(calls) }

// EndBlock implements streamorder.Carrier.
func (b *backend) EndBlock(t cuda.Thread, s cuda.Stream) error { return b.messages.post(t, s) }

// DropBlock implements streamorder.Carrier.
func (b *backend) DropBlock() { b.messages.end() }

// String describes the backend: its memory, and the rules of each collective.
func (b *backend) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "native GPU backend: rank %d of %d on %v, %v", b.rank, b.size, b.device, b.layout)
	for _, c := range b.options.Rules {
		fmt.Fprintf(&s, "\n%v", c)
	}
	return s.String()
}
