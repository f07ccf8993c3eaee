package freeport_test

import (
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
)

// TestPortBesideStarts listens at each port as soon as it is chosen, while the process starts others.
func TestPortBesideStarts(t *testing.T) {
	program, err := exec.LookPath("true")
	require.NoError(t, err)
	var over atomic.Bool
	var starters sync.WaitGroup
	for range 4 {
		starters.Go(func() {
			for !over.Load() {
				assert.NoError(t, exec.Command(program).Run())
			}
		})
	}
	for range 500 {
		l, err := net.Listen("tcp", ":"+freeport.Port(t, "127.0.0.1"))
		if assert.NoError(t, err) {
			assert.NoError(t, l.Close())
		}
	}
	over.Store(true)
	starters.Wait()
}
