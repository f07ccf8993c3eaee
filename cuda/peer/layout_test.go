package peer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/kernels/ptx"
)

// TestLayout holds the parts against what the kernels say they need, and against one another.
func TestLayout(t *testing.T) {
	for size := 1; size <= maxRanks; size++ {
		for _, memory := range []int{8 << 20, 32 << 20, DefaultMemory, 1 << 30} {
			l, err := newLayout(size, memory)
			if err != nil {
				require.Less(t, memory, 32<<20, "%d ranks: %v", size, err)
				continue
			}
			require.LessOrEqual(t, l.bytes, memory, "%d ranks", size)
			require.GreaterOrEqual(t, l.flags-l.state, ptx.StateBytes(maxBlocks))
			require.GreaterOrEqual(t, l.words-l.flags, ptx.FlagBytes(maxBlocks))
			require.GreaterOrEqual(t, l.ll128-l.ll, ptx.LLBytes(size, l.llSlot))
			require.GreaterOrEqual(t, l.counts-l.ll128, ptx.LL128Bytes(size, l.ll128Slot))
			require.GreaterOrEqual(t, l.credits-l.counts, ptx.CountBytes(l.sentinelBlocks))
			require.GreaterOrEqual(t, l.eager-l.credits, ptx.CreditBytes(l.sentinelBlocks))
			require.GreaterOrEqual(t, l.bytes-l.eager, (size-1)*eagerSlots*l.eagerSlot)
			require.GreaterOrEqual(t, l.sentinel-l.tiles, ptx.TileBytes(size, l.tileSlot, maxBlocks))
			require.GreaterOrEqual(t, l.state-l.sentinel, l.sentinelBytes())
			require.Zero(t, l.ring+l.tiles)
			require.GreaterOrEqual(t, l.state-l.ring, ringSlots*l.ringSlot)
			require.GreaterOrEqual(t, l.sentinel, l.ring+l.ringSlot, "the second slot alone lies over sentinel memory")
			require.True(t, size == 1 || l.sentinelSlots >= size && l.sentinelBlocks > 0)
			require.Zero(t, l.llSlot%64+l.tileSlot%16+l.ringSlot%ringUnit+l.sentinel%512)
		}
	}
	require.Zero(t, eagerSlots%eagerWaits, "a slot is for the same block in each round")
	_, err := newLayout(8, 1<<20)
	require.EqualError(t, err, "983040 bytes of symmetric heap, less the small parts, are too few for 8 ranks")
}

// TestWords checks that no two slots share a word or bytes of a symmetric heap.
func TestWords(t *testing.T) {
	for size := 2; size <= maxRanks; size++ {
		l, err := newLayout(size, DefaultMemory)
		require.NoError(t, err)
		for me := range size {
			used := map[int]string{}
			use := func(at int, what string) {
				require.Empty(t, used[at], "%s and %s at %d", used[at], what, at)
				used[at] = what
			}
			for slot := range ringSlots {
				data, arrived, _ := l.ringAt(me, slot)
				use(data, "ring data")
				use(arrived, "ring arrived")
				require.LessOrEqual(t, data+l.ringSlot, l.state)
			}
			for q := range size {
				for slot := range ringSlots {
					_, _, free := l.ringAt(q, slot)
					use(free, "ring free")
					require.Less(t, free, l.test)
				}
				if q == me { // nobody has an eager buffer for itself
					continue
				}
				use(l.clearToSendAt(q), "ready")
				check, label := l.eagerTags(q, 0)
				use(check, "check")
				use(label, "label")
				for slot := range eagerSlots {
					data, arrived, _ := l.eagerAt(q, me, slot)
					_, _, free := l.eagerAt(me, q, slot)
					use(data, "mail data")
					use(arrived, "mail arrived")
					use(free, "mail free")
					require.LessOrEqual(t, data+l.eagerSlot, l.bytes)
					require.Less(t, free, l.test)
				}
			}
		}
	}
}
