package op

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSeq counts numbered operations, and between them others, in one rising order.
func TestSeq(t *testing.T) {
	var at Seq
	for _, c := range []struct {
		numbered     bool
		number, more uint64
	}{{false, 0, 1}, {true, 1, 0}, {true, 2, 0}, {false, 2, 1}, {false, 2, 2}, {true, 3, 0}} {
		next := at.Next(c.numbered)
		require.Greater(t, next, at)
		at = next
		number, more := at.Split()
		require.Equal(t, []uint64{c.number, c.more, c.number}, []uint64{number, more, at.Number()})
	}
}
