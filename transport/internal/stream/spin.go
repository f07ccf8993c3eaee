package stream

import (
	"runtime"
	"time"
)

const (
	spinFor    = 50 * time.Microsecond  // looked at links again and again, at most
	crowdedFor = 200 * time.Microsecond // the same where ranks share cores: some of it is the time of others
	worthTimes = 2                      // a pause that lasted no longer than so many times would have been worth it, its wake-up included

	askFirst   = 4 // looks of a rank that has others in its process: then it looks at the streams themselves
	yieldEvery = 4 // rounds, for a rank that should have a core of its own
	passEvery  = 8 // rounds, for ranks that share cores, where other goroutines of the program may wait
)

// Spin decides whether a rank with nothing to do looks again at once or sleeps. Looking again finds a frame some 15 µs
// sooner, and wastes the core if none comes. So a rank spins if its last pause was short.
//
// A look asks the waiter whether something has come. A look at the streams themselves sees it sooner by a system call, but stands in the
// way of the sender. Between ranks of one process the first looks ask the waiter, for a frame that is on its way. Later ones are at
// the streams, for a rank that has something to do before it sends.
//
// Between two looks a rank that shares its core gives it away, so that the rank for which it waits can run. A rank that should
// have a core of its own does so less often: the system may have put both on one core. Where ranks share cores and a process,
// none looks again. A goroutine that sleeps hands over at once, and one that looks stands in the way of those that work.
type Spin struct {
	crowded bool
	company bool
	limit   time.Duration
	worth   bool      // the last pause was short
	began   time.Time // of this pause
	slept   bool      // in this pause
	woke    time.Time // from the last sleep
}

// Allow sets how a rank spins, by how many of the group are on this host, and whether others are in this process.
func (s *Spin) Allow(ranksHere int, company bool) {
	s.crowded, s.company, s.limit, s.worth = ranksHere > runtime.NumCPU(), company, spinFor, true
	switch {
	case s.crowded && company:
		s.limit = 0
	case s.crowded:
		s.limit = crowdedFor
	}
}

// Patient has a rank look on for as long as where ranks share cores, for peers that take longer to answer. Allow comes before it.
func (s *Spin) Patient() {
	if !s.Never() {
		s.limit = crowdedFor
	}
}

// Never reports whether Again is always false.
func (s *Spin) Never() bool { return s.limit == 0 }

// Again is asked once for each round of the caller that moved nothing, and says whether to look again at once.
func (s *Spin) Again(idle int) bool {
	now := time.Now()
	if idle <= 1 {
		s.worth = !s.slept || s.woke.Sub(s.began) < worthTimes*s.limit
		s.began, s.slept = now, false
	}
	if !s.worth || now.Sub(s.began) >= s.limit {
		s.slept = true
		return false
	}
	if s.crowded || idle%yieldEvery == 0 {
		yield()
	}
	if s.crowded && idle%passEvery == 0 {
		runtime.Gosched()
	}
	return true
}

// Wait looks at the waiter for as long as it is worth it, and then sleeps with it.
func (s *Spin) Wait(w Waiter, idle int, until time.Time) {
	for s.Again(idle) {
		if s.company && idle >= askFirst || w.Ready() || !until.IsZero() && !time.Now().Before(until) {
			return
		}
		idle++
	}
	w.Wait(until)
	s.Woke()
}

// Woke notes that a sleep has ended.
func (s *Spin) Woke() { s.woke = time.Now() }
