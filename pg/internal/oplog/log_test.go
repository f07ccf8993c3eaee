package oplog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPendingAgain calls an operation when the last has just ended. The goroutine that ended it is about to wake the
// goroutines that wait. One that begins to wait now must not be woken with the others, for the new operation is pending.
func TestPendingAgain(t *testing.T) {
	var l Log
	l.calls.Add(1)
	done := make(chan error, 1)
	go func() { done <- l.Wait(t.Context()) }()
	waits := func() bool {
		l.over.Lock()
		defer l.over.Unlock()
		return l.none != nil
	}
	require.Eventually(t, waits, time.Minute, time.Millisecond)
	l.over.Lock()
	ended := make(chan struct{})
	go func() {
		l.Done(1)
		close(ended)
	}()
	time.Sleep(20 * time.Millisecond)
	l.calls.Add(1)
	l.over.Unlock()
	<-ended
	time.Sleep(20 * time.Millisecond)
	require.Empty(t, done)
	l.Done(1)
	require.NoError(t, <-done)
}
