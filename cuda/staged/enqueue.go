package staged

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// Check implements streamorder.Carrier. It refuses tensors that the device cannot reach, and streams that a graph captures.
func (b *Backend) Check(t cuda.Thread, c *backend.Call, caller cuda.Stream) error {
	if err := b.check.Call(c); err != nil || c.Coll == plan.Barrier {
		return err
	}
	captured, _, err := streamorder.Capture(t, caller)
	if captured {
		err = fmt.Errorf("a graph cannot capture %v: it is staged through host memory, and the host takes part in it (%s)", c.Coll, b.options.Why)
	}
	return err
}

// Enqueue implements streamorder.Carrier. The operation waits for the commands on s, and s waits for the operation.
func (b *Backend) Enqueue(_ context.Context, t cuda.Thread, c *backend.Call, s cuda.Stream) error {
	if c.Coll == plan.Barrier {
		return nil
	}
	l := b.pipelines[streamorder.QueueOf(c.Coll)]
	if err := l.begin(t); err != nil {
		return err
	}
	x, err := l.newTransfer(c)
	if err != nil {
		return err
	}
	select {
	case l.waiting <- x: // before its rounds, for those can have to wait until some of them are done
	case <-b.over:
		return cmp.Or(b.Failure.Err(), colligo.ErrClosed)
	}
	if err := streamorder.Follow(t, l.down.Stream, s, l.down.Event); err != nil {
		return err
	}
	for i := range x.rounds {
		if err := l.enqueue(t, x, i); err != nil {
			return err
		}
	}
	return streamorder.Follow(t, s, l.up.Stream, l.up.Event)
}

// BeginBlock implements streamorder.Carrier. Any send may have to wait for its receiver.
func (b *Backend) BeginBlock(calls []backend.Call) (together bool) {
	for i := range calls {
		if calls[i].Coll == plan.Send {
			return false
		}
	}
	return true
}

// EndBlock implements streamorder.Carrier.
func (b *Backend) EndBlock(cuda.Thread, cuda.Stream) error { return nil }

// DropBlock implements streamorder.Carrier.
func (b *Backend) DropBlock() {}

// slack is how much longer than the CPU's operations the device may take before the watchdog ends the group. The CPU knows
// better which rank is late.
const slack = 2 * time.Second

// look returns an error when operations take too long. The watchdog calls it.
func (b *Backend) look(t cuda.Thread) error {
	limit := b.limit()
	return b.CheckTimeout(t, limit+slack, func(q streamorder.Queue) error {
		says := "staging through host memory, it waits " + b.pipelines[q].where()
		err := fmt.Errorf("the device of rank %d is not done after %v: %s: %w", b.rank, limit, says, colligo.ErrTimeout)
		return &backend.Late{Coll: q.Coll(), After: limit, Says: says, Err: err}
	})
}
