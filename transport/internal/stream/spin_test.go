package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpin(t *testing.T) {
	for ranks, limit := range map[int]time.Duration{1: spinFor, 1 << 20: crowdedFor} {
		var s Spin
		s.Allow(ranks, false)
		require.Equal(t, limit, s.limit)
		require.True(t, s.Again(1))
		time.Sleep(2 * limit)
		require.False(t, s.Again(2), "the pause is long")
		s.woke = s.began.Add(worthTimes * limit)
		require.False(t, s.Again(1), "the last pause was long")
		s.woke = s.began.Add(worthTimes*limit - 1)
		require.True(t, s.Again(1), "the last pause was short")
		require.True(t, s.Again(1), "the last pause ended in the spin")
	}
	var s Spin
	s.Allow(1, true)
	require.True(t, s.Again(1), "with a core for each rank")
	s.Allow(1<<20, true)
	require.False(t, s.Again(1), "with less, beside ranks of the same process")
	s.Patient()
	require.False(t, s.Again(1), "whoever the peers are")
	s.Allow(1, false)
	s.Patient()
	require.Equal(t, crowdedFor, s.limit)
}

// looked counts how it is asked and waited for.
type looked struct {
	Waiter
	asked, slept int
}

func (l *looked) Ready() bool    { l.asked++; return false }
func (l *looked) Wait(time.Time) { l.slept++ }

// TestSpinAsks has ranks with a core each wait. One with others in its process is back soon, to look at its streams. Any other asks its
// waiter until it sleeps.
func TestSpinAsks(t *testing.T) {
	for _, company := range []bool{true, false} {
		var s Spin
		s.Allow(1, company) // which no machine has too few cores for
		s.limit = time.Minute
		var w looked
		s.Wait(&w, 1, time.Now().Add(20*time.Millisecond))
		require.Zero(t, w.slept)
		if company {
			require.Equal(t, askFirst-1, w.asked)
			s.Wait(&w, askFirst, time.Time{})
			require.Equal(t, askFirst-1, w.asked, "later in the same pause")
		} else {
			require.Greater(t, w.asked, askFirst)
		}
	}
}
