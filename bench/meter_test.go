package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// play runs a budget on operations that take so long, and returns the batches.
func play(b *budget, each time.Duration) (iterations []int) {
	for n := b.next(); n > 0; n = b.next() {
		iterations = append(iterations, n)
		b.add(batch{n, time.Duration(n) * each})
	}
	return iterations
}

func TestBudgetFixed(t *testing.T) {
	require.Equal(t, []int{3, 3, 3, 3, 1}, play(&budget{fixed: 13}, time.Second))
	require.Equal(t, []int{1, 1}, play(&budget{fixed: 2}, time.Second))
	require.Empty(t, play(&budget{fixed: 0}, time.Second))
}

func TestBudgetByTime(t *testing.T) {
	for _, each := range []time.Duration{100 * time.Nanosecond, 10 * time.Microsecond, time.Millisecond, time.Second} {
		warm := &budget{fixed: automatic, target: warmTime}
		play(warm, each)
		require.GreaterOrEqual(t, warm.done.took, warmTime, each)
		require.Less(t, warm.done.took, max(2*warmTime, 2*each), each)
		timed := &budget{fixed: automatic, target: timedTime, mean: warm.mean}
		all := play(timed, each)
		require.GreaterOrEqual(t, timed.done.took, timedTime, each)
		require.Less(t, timed.done.took, max(2*timedTime, 2*each), each)
		if each < 50*time.Millisecond {
			require.GreaterOrEqual(t, len(all), batches, each)
		}
	}
}

// TestBudgetWithoutWarmUp begins with an unknown mean, and with a rank 0 whose clock stands still.
func TestBudgetWithoutWarmUp(t *testing.T) {
	b := &budget{fixed: automatic, target: timedTime}
	play(b, 30*time.Microsecond)
	require.GreaterOrEqual(t, b.done.took, timedTime)
	require.Less(t, b.done.took, 2*timedTime)
	still := &budget{fixed: automatic, target: timedTime}
	for range 20 {
		still.add(batch{still.next(), 0})
	}
	require.Greater(t, still.next(), 1<<19)
}

func TestTimingOf(t *testing.T) {
	done := []batch{{iterations: 10}, {iterations: 20}}
	took := [][]int64{{10_000, 60_000, 99}, {20_000, 40_000, 99}} // the last number is not a time
	require.Equal(t, timing{time: 80.0 / 30, least: 2, most: 3}, timingOf(done, took, false))
	require.Equal(t, timing{time: 2.5, least: 2, most: 3}, timingOf(done, took, true))
}
