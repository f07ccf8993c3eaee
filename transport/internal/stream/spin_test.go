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
}
