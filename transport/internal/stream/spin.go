package stream

import (
	"runtime"
	"time"
)

const (
	spinFor   = 50 * time.Microsecond  // looked at links again and again, at most
	spinWorth = 120 * time.Microsecond // a pause that lasted no longer would have been worth the spin, its wake-up included
)

// Spin decides whether a rank with nothing to do looks again at once or sleeps. Looking again finds a frame some 15 µs
// sooner, and wastes the core if none comes. So a rank spins if its last pause was short, and not at all where more ranks
// share the host than it has cores.
type Spin struct {
	allowed bool
	worth   bool      // the last pause was short
	began   time.Time // of this pause
	slept   bool      // in this pause
	woke    time.Time // from the last sleep
}

// Allow sets whether ranks spin at all, by how many of the group are on this host.
func (s *Spin) Allow(ranksHere int) {
	s.allowed = ranksHere <= runtime.NumCPU()
	s.worth = true
}

// Again is asked once for each round of the caller that moved nothing, and says whether to look again at once.
func (s *Spin) Again(idle int) bool {
	if !s.allowed {
		return false
	}
	now := time.Now()
	if idle <= 1 {
		s.worth = !s.slept || s.woke.Sub(s.began) < spinWorth
		s.began, s.slept = now, false
	}
	if s.worth && now.Sub(s.began) < spinFor {
		return true
	}
	s.slept = true
	return false
}

// Woke notes that a sleep has ended.
func (s *Spin) Woke() { s.woke = time.Now() }
