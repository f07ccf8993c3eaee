package symheap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWindows(t *testing.T) {
	h := &Heap{windows: []*Window{{at: 1000, bytes: 100}, {at: 5000, bytes: 50, align: 8}}}
	require.Same(t, h.windows[0], h.Window(1000, 100))
	require.Same(t, h.windows[1], h.Window(5049, 1))
	require.Nil(t, h.Window(1000, 101))
	require.Nil(t, h.Window(999, 1))
	require.Nil(t, h.Window(5001, 50))
	require.True(t, h.windows[1].Aligned(5008, 8))
	require.False(t, h.windows[1].Aligned(5004, 8))
	require.False(t, h.windows[1].Aligned(5000, 16))
}
