package pg

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/internal/control"
)

// TestPlaces counts numbered operations, and between them others, in one rising order.
func TestPlaces(t *testing.T) {
	var at uint64
	for _, c := range []struct {
		numbered     bool
		number, more uint64
	}{{false, 0, 1}, {true, 1, 0}, {true, 2, 0}, {false, 2, 1}, {false, 2, 2}, {true, 3, 0}} {
		next := after(at, c.numbered)
		require.Greater(t, next, at)
		at = next
		number, more := split(at)
		require.Equal(t, []uint64{c.number, c.more, c.number}, []uint64{number, more, numberOf(at)})
	}
	var p control.Progress
	for range 100 {
		at = after(at, at%3 != 0)
		call := (&Group{}).identityOf(&request{coll: 9}, at)
		p.Enter(call)
		got, ok := p.At(at)
		require.True(t, ok)
		require.Equal(t, call, got)
	}
}
