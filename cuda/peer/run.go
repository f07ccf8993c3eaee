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
	if err := b.failure.get(); err != nil {
		return nil, err
	}
	t, err := b.device.Enter()
	if err != nil {
		return nil, err
	}
	defer t.Leave()
	b.mu.Lock()
	defer b.mu.Unlock()
	q, s := queueOf(c.Coll), streamOf(ctx)
	if c.Async {
		if s, err = b.fork(t, q, s); err != nil {
			return nil, err
		}
	}
	if err := b.takeTurn(t, q, s); err != nil {
		return nil, err
	}
	if err := b.enqueue(ctx, t, c, s); err != nil {
		return nil, err
	}
	b.ops++
	if c.Async {
		return b.pending(t, q, s)
	}
	return nil, b.weigh(t, s, 1)
}

// enqueue puts an operation on stream s.
func (b *backend) enqueue(ctx context.Context, t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	switch c.Coll {
	case plan.AllReduce:
		return b.allReduce(ctx, t, c, s)
	case plan.ReduceScatter:
		return b.reduceScatter(ctx, t, c, s)
	case plan.Reduce:
		return b.reduce(ctx, t, c, s)
	case plan.Broadcast:
		return b.broadcast(t, c, s)
	case plan.AllGather, plan.AllToAll, plan.Gather, plan.Scatter:
		return b.exchangeCall(t, c, s)
	case plan.Send:
		return b.send(t, c, s)
	case plan.Recv:
		return b.receive(t, c, s)
	}
	return fmt.Errorf("%v has no form on a device", c.Coll)
}

// String describes the backend: what it takes, and what each collective does.
func (b *backend) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "native GPU backend: rank %d of %d on %v, %v", b.rank, b.size, b.device, &b.layout)
	for _, c := range b.options.Choices {
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
