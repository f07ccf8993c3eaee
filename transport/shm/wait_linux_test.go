package shm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waits has a rank go through idle periods of the given length, and returns how often it came to a sleep.
func waits(p *patience, periods int, length time.Duration) (sleeps int) {
	for range periods {
		p.since, p.slept = time.Now(), p.limit() < length
		if p.slept {
			sleeps++
		}
		p.learn()
	}
	return sleeps
}

// TestPatience has frames come after half the time that a rank looks on at most. Frames that came later before have taught the rank to look
// on for a shorter time. A single try of the full time is enough to go back to it.
func TestPatience(t *testing.T) {
	var p patience
	p.share(false)
	require.Zero(t, waits(&p, 100, spinTime/2), "it looks on for long enough from the beginning")
	require.Equal(t, 100, waits(&p, 100, 2*spinTime), "looking on cannot help")
	require.Equal(t, leastTime, p.now)
	waits(&p, tryEvery, spinTime/2)
	require.Zero(t, waits(&p, 100, spinTime/2), "a try has shown that looking on helps again")
	require.False(t, p.tries())
	waits(&p, 1, 2*spinTime)
	require.Less(t, p.now, spinTime, "a sleep shortens the time")
}
