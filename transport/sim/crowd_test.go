package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/testload"
)

// TestWaitBesideWork keeps all processors busy: a rank that waits goes over to sleeping without yields.
func TestWaitBesideWork(t *testing.T) {
	m := &Mesh{signal: make(chan struct{}, 1), spins: crowdedSpins}
	testload.Busy(t)
	for range 20 {
		for idle := 1; m.sleepsLeft == 0 && idle <= m.spins; idle++ {
			m.Wait(idle, time.Now().Add(time.Millisecond))
		}
	}
	require.Equal(t, sleepsAfter, m.sleepsLeft)
	for range sleepsAfter {
		for idle := 1; idle <= 2; idle++ { // it says that it will sleep, and sleeps
			m.Wait(idle, time.Now().Add(time.Microsecond))
		}
	}
	require.Zero(t, m.sleepsLeft)
}

// TestLongWaitBesideWork keeps all processors busy while a rank waits that may yield often. The first yields of the wait are not judged.
// The rank goes over to sleeping all the same, soon after.
func TestLongWaitBesideWork(t *testing.T) {
	m := &Mesh{signal: make(chan struct{}, 1), spins: loneSpins}
	testload.Busy(t)
	for range 5 {
		m.unjudged, m.sleepsLeft = 0, 0
		idle := 1
		for ; m.sleepsLeft == 0 && idle <= m.spins; idle++ {
			m.Wait(idle, time.Now().Add(time.Millisecond))
		}
		require.Less(t, idle, loneSpins/4)
	}
}
