package streamorder

import (
	"cmp"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
)

var _ backend.Timed = (*pending)(nil)

// timers are pairs of events around timed operations. The watchdog asks every timed operation how long it took. Then its pair
// is free for another.
type timers struct {
	all  []*timer
	free []*timer // under Order.asking
}

// timer is the pair of one operation.
type timer struct{ start, end cuda.Event }

// startTimer records the beginning of an operation on s. It returns nil for one that a graph captures. The caller holds o.mu.
func (o *Order) startTimer(t cuda.Thread, s cuda.Stream) (*timer, error) {
	if captured, _, err := Capture(t, s); captured || err != nil {
		return nil, err
	}
	m := &o.timers
	o.asking.Lock()
	defer o.asking.Unlock()
	if len(m.free) == 0 {
		var w timer
		var err, err2 error
		w.start, err = t.NewEvent(true)
		w.end, err2 = t.NewEvent(true)
		m.all = append(m.all, &w)
		if err := cmp.Or(err, err2); err != nil {
			return nil, err
		}
		m.free = append(m.free, &w)
	}
	w := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	return w, t.Record(w.start, s)
}

// stopTimer records the end.
func stopTimer(t cuda.Thread, w *timer, s cuda.Stream) error {
	if w == nil {
		return nil
	}
	return t.Record(w.end, s)
}

// giveBack gives all events back.
func (m *timers) giveBack(t cuda.Thread) error {
	var err error
	for _, w := range m.all {
		for _, e := range [2]cuda.Event{w.start, w.end} {
			if e != 0 {
				err = cmp.Or(err, t.DestroyEvent(e))
			}
		}
	}
	return err
}

// Begun implements backend.Timed.
func (p *pending) Begun() bool {
	o := p.o
	o.asking.Lock()
	defer o.asking.Unlock()
	if p.timer == nil || o.closing {
		return p.took > 0
	}
	begun := false
	err := OnDevice(o.device, func(t cuda.Thread) (err error) {
		begun, err = t.EventDone(p.timer.start)
		return err
	})
	return begun && err == nil
}

// Took implements backend.Timed.
func (p *pending) Took() (time.Duration, bool) {
	o := p.o
	o.asking.Lock()
	defer o.asking.Unlock()
	if p.timer == nil || o.closing {
		return p.took - 1, p.took > 0
	}
	done, ms := false, float32(0)
	err := OnDevice(o.device, func(t cuda.Thread) (err error) {
		if done, err = t.EventDone(p.timer.end); done && err == nil {
			ms, err = t.Elapsed(p.timer.start, p.timer.end)
		}
		return err
	})
	if !done || err != nil {
		return 0, false
	}
	p.took = time.Duration(float64(ms)*float64(time.Millisecond)) + 1
	o.timers.free = append(o.timers.free, p.timer)
	p.timer = nil
	return p.took - 1, true
}
