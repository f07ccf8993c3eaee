package streamorder

import (
	"cmp"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
)

var _ backend.Timed = (*pending)(nil)

// openTimers bounds the operations whose times are kept at once.
const openTimers = 128

// timers are pairs of events around timed operations, used in rotation.
type timers struct {
	pairs       [openTimers][2]cuda.Event // made at first use
	generations [openTimers]uint64
	next        int
}

// timer is one use of a pair; its generation is 0 if the operation is not timed.
type timer struct {
	slot       int
	generation uint64
}

// startTimer records the beginning of an operation on s. The caller holds o.mu.
func (o *Order) startTimer(t cuda.Thread, s cuda.Stream) (timer, error) {
	if captured, _, err := Capture(t, s); captured || err != nil {
		return timer{}, err
	}
	m := &o.timers
	i := m.next
	for e := range m.pairs[i] {
		if m.pairs[i][e] != 0 {
			continue
		}
		var err error
		if m.pairs[i][e], err = t.NewEvent(true); err != nil {
			return timer{}, err
		}
	}
	o.asking.Lock()
	defer o.asking.Unlock()
	m.next = (i + 1) % openTimers
	m.generations[i]++
	return timer{i, m.generations[i]}, t.Record(m.pairs[i][0], s)
}

// stopTimer records the end.
func (o *Order) stopTimer(t cuda.Thread, w timer, s cuda.Stream) error {
	if w.generation == 0 {
		return nil
	}
	return t.Record(o.timers.pairs[w.slot][1], s)
}

func (m *timers) free(t cuda.Thread) error {
	var err error
	for _, pair := range m.pairs {
		for _, e := range pair {
			if e != 0 {
				err = cmp.Or(err, t.DestroyEvent(e))
			}
		}
	}
	return err
}

// Took implements backend.Timed.
func (p *pending) Took() (time.Duration, bool) {
	o := p.o
	o.asking.Lock()
	defer o.asking.Unlock()
	if p.timer.generation == 0 || o.closing || o.timers.generations[p.timer.slot] != p.timer.generation {
		return 0, false
	}
	pair, done, ms := o.timers.pairs[p.timer.slot], false, float32(0)
	err := OnDevice(o.device, func(t cuda.Thread) (err error) {
		if done, err = t.EventDone(pair[1]); done && err == nil {
			ms, err = t.Elapsed(pair[0], pair[1])
		}
		return err
	})
	return time.Duration(float64(ms) * float64(time.Millisecond)), done && err == nil
}
