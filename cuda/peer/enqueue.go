package peer

import (
	"context"
	"fmt"
	"strings"

	"github.com/colligo-go/colligo/cuda"
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
