package peer

import (
	"context"
	"fmt"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// Run enqueues an operation.
func (b *backend) Run(ctx context.Context, c *pg.Call) (pg.Pending, error) {
	t, err := b.device.Enter()
	if err != nil {
		return nil, err
	}
	defer t.Leave()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failure.get(); err != nil { // who has come past here is waited for by hurry
		return nil, err
	}
	if b.block.open {
		return nil, b.join(ctx, t, c)
	}
	return b.runOn(ctx, t, c)
}

// runOn is Run on a thread, apart from what Run defers: with so many returns Go defers by a list on the symmetric heap. The caller
// holds b.mu.
func (b *backend) runOn(ctx context.Context, t cuda.Thread, c *pg.Call) (pg.Pending, error) {
	if err := b.checkCall(c); err != nil {
		return nil, err
	}
	q, s := queueOf(c.Coll), streamOf(ctx)
	if err := b.staging.refuses(t, c.Coll, s); err != nil {
		return nil, err
	}
	if c.Async {
		var err error
		if s, err = b.fork(t, q, s); err != nil {
			return nil, err
		}
	}
	if err := b.takeStreamOrder(t, q, s); err != nil {
		return nil, err
	}
	var w timer
	if c.Timed {
		var err error
		if w, err = b.startTimer(t, s); err != nil {
			return nil, err
		}
	}
	if err := b.enqueue(ctx, t, c, s); err != nil {
		return nil, err
	}
	b.progress[q].ran++
	if c.Async {
		return b.pending(t, q, s, w)
	}
	return nil, b.weigh(t, s, opCommands)
}

// running is the operation at hand.
type running struct {
	t cuda.Thread
	s cuda.Stream
}

// enqueue puts an operation on stream s.
func (b *backend) enqueue(ctx context.Context, t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	b.running.t, b.running.s = t, s
	if b.staging != nil {
		return b.staging.enqueue(b, t, c, s)
	}
	switch c.Coll {
	case plan.AllReduce:
		return b.allReduce(ctx, t, c, s)
	case plan.ReduceScatter:
		return b.reduceScatter(ctx, t, c, s)
	case plan.Reduce:
		return b.reduce(ctx, t, c, s)
	case plan.Broadcast:
		return b.broadcast(ctx, t, c, s)
	case plan.AllGather, plan.AllToAll, plan.Gather, plan.Scatter:
		return b.exchangeCall(ctx, t, c, s)
	case plan.Send:
		return b.send(t, c, s)
	case plan.Recv:
		return b.receive(t, c, s)
	case plan.Barrier: // its Pending is a mark behind what is on the streams; the ranks meet elsewhere
		return nil
	}
	return fmt.Errorf("%v has no form on a device", c.Coll)
}

// String describes the backend: what it takes, and what each collective does.
func (b *backend) String() string {
	var s strings.Builder
	if b.staging != nil {
		return b.staging.String()
	}
	fmt.Fprintf(&s, "native GPU backend: rank %d of %d on %v, %v", b.rank, b.size, b.device, &b.layout)
	for _, c := range b.options.Rules {
		fmt.Fprintf(&s, "\n%v", c)
	}
	return s.String()
}

// addressOf returns where a tensor begins; in pg's calls a tensor that a rank does not have is invalid.
func addressOf(t colligo.Tensor) cuda.Pointer {
	if !t.Valid() {
		return 0
	}
	return cuda.Pointer(t.Addr())
}
