package host

import (
	"slices"
	"time"

	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// inquiries are questions where the collective at hand stands. Only the goroutine of the progress engine can tell, and only of a
// collective that stands still. Backend.mu guards them.
type inquiries struct {
	open  []func(Standing)
	fixed *Standing // the answer to all, while the engine's goroutine does something else
	since time.Time // when the engine first saw them; zero: not yet
	moved uint64    // engine.Standing's at that time
}

// Standing is where the collective at hand stands. It is empty where none is, or where it moves.
type Standing struct {
	At op.Seq
	engine.Standing
	Failed bool // there is none, and the group has failed or closes
}

// still is how long a collective must have stood still to be told of.
const still = 100 * time.Millisecond

// Inquire has f called with where the collective at hand stands, on the goroutine of the progress engine. It reports false if the
// engine does not run. While bytes move there is no answer.
func (b *Backend) Inquire(f func(Standing)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.Driven() || b.mesh == nil {
		return false
	}
	if fixed := b.inquiries.fixed; fixed != nil {
		f(*fixed)
		return true
	}
	b.inquiries.open = append(b.inquiries.open, f)
	b.inquired.Store(true)
	if !b.Driven() { // it has stopped, and may not have seen the inquiry
		b.tell(b.nowhere())
		return true
	}
	b.mesh.Wake()
	return true
}

// Pause has inquiries answered while the goroutine of the progress engine, which calls it, waits for something else. It returns
// the answer, and what ends it.
func (b *Backend) Pause() (at Standing, resume func()) {
	at = b.standing()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tell(at)
	b.inquiries.fixed = &at
	return at, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.inquiries.fixed = nil
	}
}

// standing returns where the collective at hand stands.
func (b *Backend) standing() Standing {
	over := b.run.engine.Done()
	if b.worker != nil && over {
		over, _ = b.worker.done()
	}
	if len(b.active) == 0 || !b.active[0].Begun || over {
		return b.nowhere()
	}
	s := b.run.engine.Standing()
	if b.worker != nil {
		b.worker.addTo(&s)
	}
	slices.Sort(s.From)
	s.From = slices.Compact(s.From)
	return Standing{At: b.active[0].Seq, Standing: s}
}

// nowhere returns the standing of a group that has no collective at hand.
func (b *Backend) nowhere() Standing { return Standing{Failed: b.abort.Load() != nil} }

// inquiry answers when the collective at hand has stood still for long enough, and when there is none.
func (b *Backend) inquiry(now time.Time) {
	s := b.standing()
	b.mu.Lock()
	defer b.mu.Unlock()
	q := &b.inquiries
	if s.At > 0 && (q.since.IsZero() || s.Moved != q.moved) {
		q.since, q.moved = now, s.Moved
	}
	if s.At > 0 && now.Sub(q.since) < still {
		return
	}
	b.tell(s)
}

// tell gives all inquiries their answer, which must not wait. The caller holds b.mu.
func (b *Backend) tell(s Standing) {
	if !b.inquired.Load() {
		return
	}
	for _, f := range b.inquiries.open {
		f(s)
	}
	b.inquiries = inquiries{}
	b.inquired.Store(false)
}
