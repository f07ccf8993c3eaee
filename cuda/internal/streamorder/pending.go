package streamorder

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
)

// pending is an asynchronous operation. If the event of its end was recorded again, the operation is long done.
type pending struct {
	o          *Order
	queue      Queue
	slot       int
	generation uint64
	captured   bool          // its end is known to the graph alone
	timer      *timer        // nil if the operation is not timed, or its time is known; under Order.asking
	took       time.Duration // plus 1; 0 is unknown
	succeeded  atomic.Bool   // it was seen to be done before the abort flag was set; what fails later does not change that
}

// pending records the end of an operation on s. The caller holds o.mu.
func (o *Order) pending(t cuda.Thread, q Queue, s cuda.Stream, w *timer) (backend.Pending, error) {
	captured, _, err := Capture(t, s)
	if err != nil {
		return nil, err
	}
	if captured {
		return &pending{o: o, queue: q, captured: true}, t.Record(o.tails[q].captured, s)
	}
	if err := stopTimer(t, w, s); err != nil {
		return nil, err
	}
	slot, err := o.put(t, &o.ends, s)
	return &pending{o: o, queue: q, slot: slot, generation: o.ends.generations[slot], timer: w}, err
}

// Wait makes the context's stream wait for the operation.
func (p *pending) Wait(ctx context.Context) error {
	o := p.o
	if p.succeeded.Load() {
		return nil
	}
	if err := o.Failure.Err(); err != nil {
		return err
	}
	t, err := o.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	o.asking.Lock()
	defer o.asking.Unlock()
	if e, open := p.event(); open {
		return t.WaitEvent(Of(ctx), e)
	}
	return nil
}

// event returns the event to wait for, unless the operation is known to be done. The caller holds o.asking.
func (p *pending) event() (cuda.Event, bool) {
	if p.captured {
		return p.o.tails[p.queue].captured, true
	}
	return p.o.ends.all[p.slot], !p.o.closing && p.o.ends.generations[p.slot] == p.generation
}

// done asks whether the operation is done. Once the abort flag is set, the result of an operation that ends is not right,
// and the cause is known at once or soon.
func (p *pending) done() (bool, error) {
	if p.captured {
		return false, backend.ErrCaptured
	}
	if p.succeeded.Load() {
		return true, nil
	}
	done, err := p.passed()
	if !done || err != nil || !p.o.Failure.Raised() {
		return done, err
	}
	err = p.o.Failure.Err()
	return err != nil, err
}

// passed reports whether the device is through with the operation.
func (p *pending) passed() (bool, error) {
	o := p.o
	o.asking.Lock()
	defer o.asking.Unlock()
	e, open := p.event()
	if !open {
		return true, nil
	}
	t, err := o.device.Enter()
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
	if done && err == nil && !o.Failure.Raised() {
		p.succeeded.Store(true)
	}
	return done, cmp.Or(err, err2)
}

// Synchronize blocks until the operation is done or has failed. A device that does not stop is given up after Patience.
func (p *pending) Synchronize(ctx context.Context) error {
	var raised time.Time // when the abort flag was first seen
	for n := 0; ; {
		done, err := p.done()
		if done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if f := &p.o.Failure; f.Raised() {
			if raised.IsZero() {
				raised = time.Now()
			} else if err := f.Err(); err != nil && time.Since(raised) > Patience {
				return err
			}
		}
		n = Pause(n)
	}
}

// Done reports whether the operation is done or has failed.
func (p *pending) Done() bool {
	done, err := p.done()
	return done || err != nil
}
