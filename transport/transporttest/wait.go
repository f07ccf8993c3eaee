package transporttest

import (
	"sync/atomic"
	"testing"
	"time"
)

// waitDeadline sees that Wait returns when until has passed, and that it sleeps meanwhile.
func waitDeadline(t *testing.T, open Opener) {
	const rest, most = 100 * time.Millisecond, 2100 * time.Millisecond
	m := open(t, 2, nil)[0]
	soonest := limit
	for i := 0; i < 5 && soonest > most; i++ { // a busy machine may hold up one try
		start := time.Now()
		idle := 0
		for time.Since(start) < rest {
			idle++
			m.Wait(idle, start.Add(rest))
		}
		if idle > 20_000 {
			t.Errorf("Wait returned %d times in %v with nothing to do; it should sleep", idle, rest)
		}
		soonest = min(soonest, time.Since(start))
	}
	if soonest > most {
		t.Errorf("waited %v or more for a deadline after %v", soonest, rest)
	}
	m.Wait(1<<20, time.Now().Add(-time.Second))
}

// wake ends a wait without a deadline from another goroutine, then ends a wait that has not begun.
func wake(t *testing.T, open Opener) {
	m := open(t, 2, nil)[0]
	for i := range 20 {
		var done atomic.Bool
		go func() {
			time.Sleep(time.Duration(i) * 200 * time.Microsecond)
			done.Store(true)
			m.Wake()
		}()
		start := time.Now()
		for idle := 1; !done.Load(); idle++ {
			m.Wait(idle, start.Add(limit))
		}
		if took := time.Since(start); took > limit/2 {
			t.Fatalf("round %d: woken after %v", i, took)
		}
	}
	for idle := 1; idle < 1<<20; idle *= 2 {
		m.Wake()
		start := time.Now()
		m.Wait(idle, start.Add(limit))
		if took := time.Since(start); took > limit/2 {
			t.Fatalf("a wake before the wait was lost: Wait(%d) took %v", idle, took)
		}
	}
}
