package cudasim

import (
	"fmt"
	"runtime/debug"
	"time"
)

// How long a test may take that has Limit.
const (
	longestSilence = 50 * time.Second // without a step of the Sim
	longestTest    = 5 * time.Minute
)

// LimitedTB is the part of testing.TB that Limit needs.
type LimitedTB interface {
	Name() string
	Cleanup(func())
}

// Limit gives a test a limit of its own: 50 s in which the Sim takes no step, and 5 minutes in all. Beyond it the program ends.
// It prints the test's name, what the Sim's operations and calls wait for, and the stacks of all goroutines.
//
// The limit is for hangs outside the Sim, and for hosts that move it for ever. Within the Sim Config.Patience is shorter.
func Limit(t LimitedTB, s *Sim) {
	l := &limit{sim: s, name: t.Name(), began: time.Now(), moved: time.Now(), exceeded: func(report string) {
		debug.SetTraceback("all")
		panic(report)
	}}
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
	sim          *Sim
	name         string
	began, moved time.Time
	steps        uint64
	exceeded     func(report string)
}

// look compares the Sim with how it was.
func (l *limit) look(now time.Time) {
	s := l.sim
	s.lock()
	defer s.unlock()
	if s.steps != l.steps {
		l.steps, l.moved = s.steps, now
	}
	silence, all := now.Sub(l.moved), now.Sub(l.began)
	if silence >= longestSilence || all >= longestTest {
		l.exceeded(fmt.Sprintf("%s hangs: it has run for %v, and its simulated machine has taken no step for %v\n%s", l.name, all.Round(time.Second),
			silence.Round(time.Second), s.report(silence)))
	}
}
