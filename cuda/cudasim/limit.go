package cudasim

import (
	"fmt"
	"runtime/debug"
	"time"
)

// How long a test may take that has Limit.
const (
	longestSilence = 50 * time.Second // without a step of the Sim, or without a write of the operation at the head of a stream
	longestTest    = 5 * time.Minute  // of the clock, and of processors that the process has had meanwhile
)

// manySteps is four times the steps for which an operation waits at the head of a stream in tests whose hosts do not poll. A host that polls
// takes as many in a third of longestSilence.
const manySteps = 200_000

// LimitedTB is the part of testing.TB that Limit needs.
type LimitedTB interface {
	Name() string
	Cleanup(func())
}

// Limit gives a test a limit of its own: 5 minutes in all, and 50 s in which the Sim takes no step. The 5 minutes are not over before the
// process has had as much time of processors, for beside other programs a test may get few. An operation whose turn has come
// may neither end nor write for 50 s, too. On a busy machine it may take longer, as long as the Sim changes memory and takes fewer than
// 200,000 steps meanwhile. The limit is over when the Sim has been closed. Beyond the limit the program ends. It prints the test's
// name, what the Sim's operations and calls wait for, and the stacks of all goroutines.
//
// The limit is for hangs outside the Sim, and for hosts that move it for ever. Such a host copies a flag again and again, say, which a
// stuck kernel should set. Within the Sim Config.Patience is shorter.
func Limit(t LimitedTB, s *Sim) {
	l := newLimit(t.Name(), s, time.Now(), func(report string) {
		debug.SetTraceback("all")
		panic(report)
	})
	again := make(chan *time.Timer, 1)
	again <- time.AfterFunc(longestSilence/10, func() {
		if timer, open := <-again; open {
			l.look(time.Now())
			timer.Reset(longestSilence / 10)
			again <- timer
		}
	})
	t.Cleanup(func() {
		(<-again).Stop()
		close(again)
	})
}

// limit is what Limit remembers of a test.
type limit struct {
	sim            *Sim
	name           string
	began          time.Time
	used           func() time.Duration // time of processors that the process has had since then
	moved, changed time.Time            // when the Sim was last found to have taken a step, and to have changed memory
	steps, changes uint64
	heads          map[*op]head // by the operations at the heads of all streams
	exceeded       func(report string)
}

// head is an operation whose turn has come: how often it had written, and since when and since which step of the Sim.
type head struct {
	writes uint64
	since  time.Time
	step   uint64
}

func newLimit(name string, s *Sim, now time.Time, exceeded func(report string)) *limit {
	before := processorTime()
	return &limit{sim: s, name: name, began: now, used: func() time.Duration { return processorTime() - before }, moved: now, changed: now,
		exceeded: exceeded}
}

// look compares the Sim with how it was.
func (l *limit) look(now time.Time) {
	s := l.sim
	s.lock()
	defer s.unlock()
	if s.ended() { // the test may go on with another one
		return
	}
	if s.steps != l.steps {
		l.steps, l.moved = s.steps, now
	}
	if s.changes != l.changes {
		l.changes, l.changed = s.changes, now
	}
	silence, all := now.Sub(l.moved), now.Sub(l.began)
	oldest, h := l.stand(now)
	still := now.Sub(h.since)
	slow := s.steps-h.step < manySteps && now.Sub(l.changed) < longestSilence
	why := ""
	switch {
	case silence >= longestSilence || all >= longestTest && l.used() >= longestTest:
		why = fmt.Sprintf("its simulated machine has taken no step for %v", silence.Round(time.Second))
	case oldest != nil && still >= longestSilence && !slow:
		why = fmt.Sprintf("%v has neither ended nor written for %v, while its simulated machine went on", oldest.origin, still.Round(time.Second))
	default:
		return
	}
	l.exceeded(fmt.Sprintf("%s hangs: it has run for %v, and %s\n%s", l.name, all.Round(time.Second), why, s.standing()))
}

// stand returns the operation that has stood longest at the head of a stream without a write, nil for none.
func (l *limit) stand(now time.Time) (oldest *op, longest head) {
	before := l.heads
	l.heads = map[*op]head{}
	for _, p := range l.sim.processes {
		for _, st := range append(p.legacyStreams(), sortedStreams(p)...) {
			if len(st.ops) == 0 {
				continue
			}
			o := st.ops[0]
			h, known := before[o]
			if !known || h.writes != o.writes {
				h = head{o.writes, now, l.sim.steps}
			}
			l.heads[o] = h
			if oldest == nil || h.since.Before(longest.since) {
				oldest, longest = o, h
			}
		}
	}
	return oldest, longest
}
