package peer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
)

// TestLayoutFitsLaunches holds the layout of symmetric heaps against what launches take for granted. Package symheap may not
// import this one, so its own tests have the same numbers as literals.
func TestLayoutFitsLaunches(t *testing.T) {
	t.Parallel()
	require.Zero(t, symheap.EagerSlots%messageWaits, "a block of eager messages always serves the same slots")
	require.Equal(t, 96<<20, DefaultMemory, "symheap's TestLayout, TestWords and TestEagerBuffers lay out as much")
	for size := 1; size <= symheap.MaxRanks; size++ {
		l, err := symheap.NewLayout(size, DefaultMemory)
		require.NoError(t, err, "%d ranks", size)
		require.LessOrEqual(t, l.Bytes, DefaultMemory, "%d ranks", size)
		for _, memory := range []int{8 << 20, 32 << 20, DefaultMemory, 1 << 30} {
			if l, err := symheap.NewLayout(size, memory); err == nil {
				require.Zero(t, l.RingSlot%ringUnit, "%d ranks, %d bytes: a ring's slot has whole elements of its plan", size, memory)
			}
		}
	}
}
