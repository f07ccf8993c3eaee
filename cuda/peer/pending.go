package peer

import (
	"context"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
)

// pending is an asynchronous operation. If its mark was recorded again, the operation is long done.
type pending struct {
	b          *backend
	queue      queue
	slot       int
	generation uint64
	captured   bool // its end is known to the graph alone
	timer      timer
}

// pending records the end of an operation on s. The caller holds b.mu.
func (b *backend) pending(t cuda.Thread, q queue, s cuda.Stream, w timer) (pg.Pending, error) {
	captured, _, err := capture(t, s)
	if err != nil {
		return nil, err
	}
	if captured {
		return &pending{b: b, queue: q, captured: true}, t.Record(b.streamOrders[q].captured, s)
	}
	if err := b.stopTimer(t, w, s); err != nil {
		return nil, err
	}
	slot, err := b.put(t, &b.ends, s)
	return &pending{b: b, queue: q, slot: slot, generation: b.ends.generations[slot], timer: w}, err
}

// Wait makes the context's stream wait for the operation.
func (p *pending) Wait(ctx context.Context) error {
	b := p.b
	if err := b.failure.get(); err != nil {
		return err
	}
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	b.asking.Lock()
	defer b.asking.Unlock()
	if e, open := p.event(); open {
		return t.WaitEvent(streamOf(ctx), e)
	}
	return nil
}

// event returns the event to wait for, unless the operation is known to be done. The caller holds b.asking.
func (p *pending) event() (cuda.Event, bool) {
	if p.captured {
		return p.b.streamOrders[p.queue].captured, true
	}
	return p.b.ends.events[p.slot], !p.b.closing && p.b.ends.generations[p.slot] == p.generation
}

// done asks whether the operation is done. When kernels were told to stop, what is done is not right, and the cause is
// known at once or soon.
func (p *pending) done() (bool, error) {
	if p.captured {
		return false, pg.ErrCaptured
	}
	done, err := p.passed()
	if !done || err != nil || !p.b.aborted() {
		return done, err
	}
	err = p.b.failure.get()
	return err != nil, err
}

// passed reports whether the device is through with the operation.
func (p *pending) passed() (bool, error) {
	b := p.b
	b.asking.Lock()
	defer b.asking.Unlock()
	e, open := p.event()
	if !open {
		return true, nil
	}
	t, err := b.device.Enter()
	if err != nil {
		return false, err
	}
	defer t.Leave()
	before, err := t.ExchangeCaptureMode(cuda.CaptureRelaxed)
	if err != nil {
		return false, err
	}
	done, err := t.EventDone(e)
	_, err2 := t.ExchangeCaptureMode(before)
	return done, first(err, err2)
}

// Synchronize blocks until the operation is done or has failed.
func (p *pending) Synchronize(ctx context.Context) error {
	for n := 0; ; n++ {
		done, err := p.done()
		if done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause(n)
	}
}

// Done reports whether the operation is done or has failed.
func (p *pending) Done() bool {
	done, err := p.done()
	return done || err != nil
}
