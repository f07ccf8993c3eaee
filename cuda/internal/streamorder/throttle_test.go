package streamorder

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPauseBesideWork keeps all processors busy: Pause sleeps long before it has yielded as often as on a machine that is idle.
func TestPauseBesideWork(t *testing.T) {
	var over atomic.Bool
	defer over.Store(true)
	var begun sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		begun.Add(1)
		go func() {
			begun.Done()
			for !over.Load() {
			}
		}()
	}
	begun.Wait()
	looks := 0
	for n := 0; n < yields; looks++ {
		n = Pause(n)
	}
	require.Less(t, looks, yields/2)
}
