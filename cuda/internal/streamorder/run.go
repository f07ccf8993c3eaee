package streamorder

import (
	"context"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
)

// opCommands is about how many commands an operation enqueues: a graph of one kernel counts as two.
const opCommands = 2

// Run enqueues an operation:
//
//  1. On a thread of the device, with the order's lock held, nothing is enqueued any more once the group has failed.
//  2. In a block the call is kept until End.
//  3. The carrier checks the call.
//  4. An asynchronous operation gets its queue's own stream, which first waits for the caller's.
//  5. The stream waits for the queue's operation before, if that is on another one.
//  6. The carrier enqueues the operation.
//  7. The throttle bounds what is in flight. The end of an asynchronous or timed operation is an event, which its Pending
//     asks. Some of the others are marked, so that Finished can tell how far a device has come that hangs.
func (o *Order) Run(ctx context.Context, c *backend.Call) (backend.Pending, error) {
	t, err := o.device.Enter() // (1)
	if err != nil {
		return nil, err
	}
	defer t.Leave()
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.Failure.Err(); err != nil {
		return nil, err
	}
	if o.block.open { // (2)
		return nil, o.join(ctx, t, c)
	}
	return o.runOn(ctx, t, c)
}

// runOn has steps 3 to 7 of Run, without its defers: with so many returns Go would defer by a list on the heap.
func (o *Order) runOn(ctx context.Context, t cuda.Thread, c *backend.Call) (backend.Pending, error) {
	q, s := QueueOf(c.Coll), Of(ctx)
	if err := o.carrier.Check(t, c, s); err != nil { // (3)
		return nil, err
	}
	if c.Async { // (4)
		var err error
		if s, err = o.fork(t, q, s); err != nil {
			return nil, err
		}
	}
	if err := o.take(t, q, s); err != nil { // (5)
		return nil, err
	}
	var w *timer
	if c.Timed {
		var err error
		if w, err = o.startTimer(t, s); err != nil {
			return nil, err
		}
	}
	if err := o.carrier.Enqueue(ctx, t, c, s); err != nil { // (6)
		return nil, err
	}
	o.progress[q].ran++
	if c.Async || w != nil { // (7)
		return o.pending(t, q, s, w)
	}
	if err := o.markCall(t, q, s); err != nil {
		return nil, err
	}
	return nil, o.Throttle(t, s, opCommands)
}
