package streamorder

import (
	"sync/atomic"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/plan"
)

// progress is how far the device has come with a queue, as far as it was asked.
type progress struct {
	ran, watched uint64        // calls of Run, and those that had run when the event was recorded; under Order.mu, as are event and open
	done         atomic.Uint64 // calls known to be done
	event        cuda.Event
	open         bool
}

// Finished implements backend.Tracker. Each time it is asked it looks at its event, or records one behind all operations if there is
// none. Calls that a graph captures count as done, for the graph alone knows.
func (o *Order) Finished(c plan.Coll) uint64 {
	p := &o.progress[QueueOf(c)]
	if !o.mu.TryLock() { // a call that enqueues may wait for the throttle
		return p.done.Load()
	}
	defer o.mu.Unlock()
	switch {
	case o.Failure.Raised():
	case o.closing:
		p.done.Store(p.ran)
	case p.open || p.done.Load() < p.ran:
		// An error shows at the next call, or to the watchdog.
		_ = OnDevice(o.device, func(t cuda.Thread) error { return o.advance(t, p, o.tails[QueueOf(c)].stream) })
	}
	return p.done.Load()
}

// advance looks at a queue's event and records it anew. The caller holds o.mu.
func (o *Order) advance(t cuda.Thread, p *progress, s cuda.Stream) error {
	if p.open {
		done, err := t.EventDone(p.event)
		if p.open = err == nil && !done; p.open || err != nil || o.Failure.Raised() { // a capture can have taken the event
			return err
		}
		p.done.Store(p.watched)
	}
	if p.done.Load() == p.ran {
		return nil
	}
	apart, err := recordApart(t, p.event, s)
	if err != nil {
		return err
	}
	if !apart {
		p.done.Store(p.ran)
		return nil
	}
	p.watched, p.open = p.ran, true
	return nil
}
