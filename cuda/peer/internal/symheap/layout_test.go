package symheap

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/kernels/ptx"
)

// TestLayout holds the parts against what the kernels say they need, and against one another.
func TestLayout(t *testing.T) {
	for size := 1; size <= MaxRanks; size++ {
		for _, memory := range []int{8 << 20, 32 << 20, 96 << 20, 1 << 30} {
			l, err := NewLayout(size, memory)
			if err != nil {
				require.Less(t, memory, 32<<20, "%d ranks: %v", size, err)
				continue
			}
			require.LessOrEqual(t, l.Bytes, memory, "%d ranks", size)
			require.GreaterOrEqual(t, l.Flags-l.State, ptx.StateBytes(MaxBlocks))
			require.GreaterOrEqual(t, l.Words-l.Flags, ptx.FlagBytes(MaxBlocks))
			require.GreaterOrEqual(t, l.LL128-l.LL, ptx.LLBytes(size, l.LLSlot))
			require.GreaterOrEqual(t, l.Counts-l.LL128, ptx.LL128Bytes(size, l.LL128Slot))
			require.GreaterOrEqual(t, l.Credits-l.Counts, ptx.CountBytes(l.SentinelBlocks))
			require.GreaterOrEqual(t, l.Eager-l.Credits, ptx.CreditBytes(l.SentinelBlocks))
			require.GreaterOrEqual(t, l.Bytes-l.Eager, (size-1)*EagerSlots*l.EagerSlot)
			require.GreaterOrEqual(t, l.Sentinel-l.Tiles, ptx.TileBytes(size, l.TileSlot, MaxBlocks))
			require.GreaterOrEqual(t, l.State-l.Sentinel, l.SentinelBytes())
			require.Zero(t, l.Ring+l.Tiles)
			require.GreaterOrEqual(t, l.State-l.Ring, RingSlots*l.RingSlot)
			require.GreaterOrEqual(t, l.Sentinel, l.Ring+l.RingSlot, "the second slot alone lies over lines")
			require.True(t, size == 1 || l.SentinelSlots >= size && l.SentinelBlocks > 0)
			require.Zero(t, l.LLSlot%64+l.TileSlot%16+l.RingSlot%(4<<10)+l.Sentinel%512)
		}
	}
	require.Zero(t, EagerSlots%4, "a slot is for the same block in each round")
	_, err := NewLayout(8, 1<<20)
	require.EqualError(t, err, "983040 bytes of heap, less the small parts, are too few for 8 ranks")
}

// TestWords checks that no two slots share a word or bytes of a heap.
func TestWords(t *testing.T) {
	for size := 2; size <= MaxRanks; size++ {
		l, err := NewLayout(size, 96<<20)
		require.NoError(t, err)
		for me := range size {
			used := map[int]string{}
			use := func(at int, what string) {
				require.Empty(t, used[at], "%s and %s at %d", used[at], what, at)
				used[at] = what
			}
			for slot := range RingSlots {
				data, arrived, _ := l.RingAt(me, slot)
				use(data, "ring data")
				use(arrived, "ring arrived")
				require.LessOrEqual(t, data+l.RingSlot, l.State)
			}
			for q := range size {
				for slot := range RingSlots {
					_, _, free := l.RingAt(q, slot)
					use(free, "ring free")
					require.Less(t, free, l.test)
				}
				if q == me { // nobody has a eagerBufferAt for itself
					continue
				}
				use(l.ClearToSendAt(q), "ready")
				use(l.TrustedAt(q), "trusted")
				check, label := l.EagerTags(q, 0)
				use(check, "check")
				use(label, "label")
				for slot := range EagerSlots {
					data, arrived, _ := l.EagerAt(q, me, slot)
					_, _, free := l.EagerAt(me, q, slot)
					use(data, "mail data")
					use(arrived, "mail arrived")
					use(free, "mail free")
					require.LessOrEqual(t, data+l.EagerSlot, l.Bytes)
					require.Less(t, free, l.test)
				}
			}
		}
	}
}

// TestEagerBuffers holds the shares of eager buffers against one another.
func TestEagerBuffers(t *testing.T) {
	for size := 2; size <= MaxRanks; size++ {
		l, err := NewLayout(size, 96<<20)
		require.NoError(t, err)
		require.Positive(t, l.RendezvousBlocks)
		used := map[int]bool{}
		for q := range size {
			if q == 0 {
				continue
			}
			require.Equal(t, l.eagerBufferAt(q, 0)+l.eagerBuffer, l.RendezvousAt(q, 0)+ptx.SentinelBytes(RendezvousSlots, l.RendezvousBlocks))
			require.LessOrEqual(t, l.RendezvousCredits(0, q, true)+ptx.CreditBytes(l.RendezvousBlocks), l.Bytes)
			for _, at := range []int{l.eagerBufferAt(q, 0), l.RendezvousAt(q, 0), l.RendezvousCounts(0, q, true), l.RendezvousCounts(0, q, false),
				l.RendezvousCredits(0, q, true), l.RendezvousCredits(0, q, false)} {
				require.False(t, used[at])
				used[at] = true
				require.Less(t, at, l.Bytes)
			}
		}
		l.WithoutRendezvous()
		require.Equal(t, l.eagerBuffer, EagerSlots*l.EagerSlot)
	}
}
