package peer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

var (
	_ pg.Tracker = (*backend)(nil)
	_ pg.Timed   = (*pending)(nil)
)

// progress is how far the device has come with a queue, as far as it was asked: calls of Run, those that had run when the
// event was recorded, and those known to be done.
type progress struct {
	ran, watched uint64 // under backend.mu, as are event and open
	done         atomic.Uint64
	event        cuda.Event
	open         bool
}

// Finished implements pg.Tracker. Each time it is asked it records an event behind what is enqueued, if there is none, or
// looks at it. Calls that a graph captures count as done, for the graph alone knows.
func (b *backend) Finished(c plan.Coll) uint64 {
	p := &b.progress[queueOf(c)]
	if !b.mu.TryLock() { // somebody enqueues, and may wait for a mark
		return p.done.Load()
	}
	defer b.mu.Unlock()
	switch {
	case b.aborted():
	case b.closing:
		p.done.Store(p.ran)
	case p.open || p.done.Load() < p.ran:
		// An error shows at the next call, or to the watchdog.
		_ = b.advance(p, b.streamOrders[queueOf(c)].stream)
	}
	return p.done.Load()
}

// advance looks at a queue's event and records it anew. The caller holds b.mu.
func (b *backend) advance(p *progress, s cuda.Stream) error {
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return relaxed(t, func() error { return b.advanceOn(t, p, s) })
}

func (b *backend) advanceOn(t cuda.Thread, p *progress, s cuda.Stream) error {
	if p.open {
		done, err := t.EventDone(p.event)
		if p.open = err == nil && !done; p.open || err != nil || b.aborted() { // a capture can have taken the event
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

// openTimers bounds the operations whose times are kept at once.
const openTimers = 128

// timers are pairs of events around timed operations, which take turns.
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

// startTimer records the beginning of an operation on s. The caller holds b.mu.
func (b *backend) startTimer(t cuda.Thread, s cuda.Stream) (timer, error) {
	if captured, _, err := capture(t, s); captured || err != nil {
		return timer{}, err
	}
	m := &b.timers
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
	b.asking.Lock()
	defer b.asking.Unlock()
	m.next = (i + 1) % openTimers
	m.generations[i]++
	return timer{i, m.generations[i]}, t.Record(m.pairs[i][0], s)
}

// stopTimer records the end.
func (b *backend) stopTimer(t cuda.Thread, w timer, s cuda.Stream) error {
	if w.generation == 0 {
		return nil
	}
	return t.Record(b.timers.pairs[w.slot][1], s)
}

func (m *timers) free(t cuda.Thread) error {
	var err error
	for _, pair := range m.pairs {
		for _, e := range pair {
			if e != 0 {
				err = first(err, t.DestroyEvent(e))
			}
		}
	}
	return err
}

// Took implements pg.Timed.
func (p *pending) Took() (time.Duration, bool) {
	b := p.b
	b.asking.Lock()
	defer b.asking.Unlock()
	if p.timer.generation == 0 || b.closing || b.timers.generations[p.timer.slot] != p.timer.generation {
		return 0, false
	}
	t, err := b.device.Enter()
	if err != nil {
		return 0, false
	}
	defer t.Leave()
	pair, done, ms := b.timers.pairs[p.timer.slot], false, float32(0)
	err = relaxed(t, func() (err error) {
		if done, err = t.EventDone(pair[1]); done && err == nil {
			ms, err = t.Elapsed(pair[0], pair[1])
		}
		return err
	})
	return time.Duration(float64(ms) * float64(time.Millisecond)), done && err == nil
}

// abortWord is what became of the abort flag when its memory was given back.
type abortWord struct {
	sync.RWMutex
	gone, set bool
}

// aborted reports whether kernels were told to stop. It may be asked after Close.
func (b *backend) aborted() bool {
	b.abortWord.RLock()
	defer b.abortWord.RUnlock()
	if b.abortWord.gone || b.abort == nil {
		return b.abortWord.set
	}
	return atomic.LoadUint32(b.word(0)) != 0
}

// freeAbort gives the abort flag's memory back.
func (b *backend) freeAbort(t cuda.Thread) error {
	set := b.aborted()
	b.abortWord.Lock()
	defer b.abortWord.Unlock()
	b.abortWord.gone, b.abortWord.set = true, set
	return t.FreeHost(b.abort)
}
