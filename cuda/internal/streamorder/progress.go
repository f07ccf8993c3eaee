package streamorder

import (
	"sync/atomic"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/plan"
)

// progress is how far the device has come with a queue, as far as it was asked.
type progress struct {
	ran           uint64        // calls of Run; under Order.mu
	done          atomic.Uint64 // calls known to be done
	behind        mark          // the event that Finished records behind all calls
	marks         [mostMarks]mark
	first, marked atomic.Int64 // of marks: those from first up to marked are open, modulo mostMarks; calls add, and ask takes away
	budget        atomic.Int64 // marks that may still be made
}

// mark is an event behind a call.
type mark struct {
	event cuda.Event
	open  bool   // of the one behind all calls
	ran   uint64 // calls before it
}

// A queue has mostMarks events behind single calls. So Finished can tell where the device stands that hangs, for the first
// calls after a pause one by one. An event takes time of the host, and between two kernels time of the device. So firstMarks calls are
// marked after a pause, and a few more each time that Finished is asked, until all calls are done. Calls without a mark are known to be
// done with a later one.
const (
	mostMarks  = 64
	firstMarks = 32
	moreMarks  = 2
)

// Finished implements backend.Tracker. Each time it is asked it looks at the marks of calls. If there is none behind the last
// call it records an event there. Calls that a graph captures count as done, for the graph alone knows.
func (o *Order) Finished(c plan.Coll) uint64 {
	q := QueueOf(c)
	p := &o.progress[q]
	// An error shows at the next call, or to the watchdog.
	_ = o.ask(q)
	if !o.mu.TryLock() { // a call that enqueues may wait for the throttle
		return p.done.Load()
	}
	defer o.mu.Unlock()
	switch {
	case o.Failure.Raised():
	case o.closing:
		p.done.Store(p.ran)
	case p.done.Load() < p.ran:
		_ = OnDevice(o.device, func(t cuda.Thread) error { return o.advance(t, p, o.tails[q].stream) })
	}
	return p.done.Load()
}

// ask looks at the events of a queue. It does so beside a call that waits for the throttle.
func (o *Order) ask(q Queue) error {
	p := &o.progress[q]
	o.asking.Lock()
	defer o.asking.Unlock()
	p.budget.Store(min(p.budget.Load()+moreMarks, mostMarks))
	if o.closing || !p.behind.open && p.first.Load() == p.marked.Load() {
		return nil
	}
	return OnDevice(o.device, func(t cuda.Thread) error {
		for p.first.Load() < p.marked.Load() {
			m := &p.marks[p.first.Load()%mostMarks]
			passed, err := o.pass(t, p, m)
			if !passed {
				return nil
			}
			if p.first.Add(1); err != nil {
				return err
			}
		}
		if !p.behind.open {
			return nil
		}
		_, err := o.pass(t, p, &p.behind)
		return err
	})
}

// pass reports whether the device has passed a mark, and then takes it away. After a failure nothing counts as done any more.
// The caller holds o.asking.
func (o *Order) pass(t cuda.Thread, p *progress, m *mark) (bool, error) {
	done, err := t.EventDone(m.event)
	if err == nil && !done || o.Failure.Raised() {
		return false, nil
	}
	m.open = false // a capture can have taken the event
	if err != nil {
		return true, err
	}
	if p.done.Load() < m.ran {
		p.done.Store(m.ran)
	}
	return true, nil
}

// advance records an event behind all calls of a queue, unless one is there. The caller holds o.mu.
func (o *Order) advance(t cuda.Thread, p *progress, s cuda.Stream) error {
	o.asking.Lock()
	defer o.asking.Unlock()
	if p.behind.open {
		return nil
	}
	if marked := p.marked.Load(); p.first.Load() < marked && p.marks[(marked-1)%mostMarks].ran == p.ran {
		return nil
	}
	apart, err := recordApart(t, p.behind.event, s)
	if err != nil {
		return err
	}
	if !apart {
		p.done.Store(p.ran)
		return nil
	}
	p.behind.ran, p.behind.open = p.ran, true
	return nil
}

// freeMarks gives the events of all marks back that were made at first use.
func (o *Order) freeMarks(t cuda.Thread) (errs []error) {
	for q := range o.progress {
		for i := range o.progress[q].marks {
			if e := o.progress[q].marks[i].event; e != 0 {
				errs = append(errs, t.DestroyEvent(e))
			}
		}
	}
	return errs
}
