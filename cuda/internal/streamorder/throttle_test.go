package streamorder

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/testload"
)

// TestPauseBesideWork keeps all processors busy: Pause sleeps long before it has yielded as often as on a machine that is idle.
func TestPauseBesideWork(t *testing.T) {
	testload.Busy(t)
	looks := 0
	for n := 0; n < yields; looks++ {
		n = Pause(n)
	}
	require.Less(t, looks, yields/2)
}
