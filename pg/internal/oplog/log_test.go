package oplog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPendingAgain calls an operation when the last has just ended. The goroutine that ended it is about to wake the
// goroutines that wait. One that begins to wait now must not be woken with the others, for the new operation is pending.
func TestPendingAgain(t *testing.T) {
	var p Pending
	p.Add()
	done := make(chan error, 1)
	go func() { done <- p.Wait(t.Context()) }()
	waits := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.zero != nil
	}
	require.Eventually(t, waits, time.Minute, time.Millisecond)
	p.mu.Lock()
	ended := make(chan struct{})
	go func() {
		p.Done(1)
		close(ended)
	}()
	for p.n.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	p.Add()
	p.mu.Unlock()
	<-ended
	time.Sleep(20 * time.Millisecond)
	require.Empty(t, done)
	p.Done(1)
	require.NoError(t, <-done)
}
