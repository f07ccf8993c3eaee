package peer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
)

// overSentinel makes a symmetric heap so small that slices need not be long to lie over sentinel memory. All data moves by
// rings and the sentinel protocol alone.
func overSentinel(size int) Options {
	return Options{Memory: leastMemory(size), Rules: []Rule{{Coll: plan.AllGather, Algorithm: CopyRing, Blocks: 3, Threads: 64},
		{Coll: plan.AllReduce, Algorithm: Sentinel, Blocks: 128, Threads: 512}, {Coll: plan.Broadcast, Algorithm: Sentinel, Blocks: 128, Threads: 512}}}
}

// TestCopyRingOverSentinel has the sentinel protocol find its memory cleared after rings of odd and even numbers of slices, each as large as a slot.
func TestCopyRingOverSentinel(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 3} {
		for _, slices := range []int{2, 3} {
			t.Run(fmt.Sprintf("ranks=%d/slices=%d", size, slices), func(t *testing.T) {
				t.Parallel()
				l, err := symheap.NewLayout(size, leastMemory(size))
				require.NoError(t, err)
				require.Positive(t, l.OverSentinel(l.RingSlot))
				onRanks(t, simulated(t, size).Driver(), size, size, 2*size*slices*l.RingSlot, overSentinel(size), func(r *rank) error {
					return r.sentinelAndRings(slices * l.RingSlot)
				})
			})
		}
	}
}

// sentinelAndRings moves by the sentinel protocol, by a ring whose parts have so many bytes, and by the sentinel protocol.
func (r *rank) sentinelAndRings(part int) error {
	for i := range 2 {
		if err := first(r.byAllSentinel(i),
			func() error { return r.gathersInPlace(part / 4) },
			func() error { return r.byAllSentinel(i + 1) }); err != nil {
			return err
		}
	}
	return nil
}

// byAllSentinel sums and broadcasts so much that all slots of all warps are used.
func (r *rank) byAllSentinel(root int) error {
	const n = 500_000
	return first(r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}),
		func() error { return r.broadcastBytes(n, 0, root%r.g.Size()) })
}

// TestCopyRingLeavesSentinelFilled leaves out the kernel that clears sentinel memory behind a ring, and expects that to be noticed.
func TestCopyRingLeavesSentinelFilled(t *testing.T) {
	t.Parallel()
	require.NoError(t, ringsThenSentinel(t, false, simPatience))
	const noticed = "all_reduce float32 sum" // by the sentinel protocol, wrong or without an end
	err := ringsThenSentinel(t, true, 2*time.Second)
	if err != nil && !strings.Contains(err.Error(), noticed) { // a busy machine held a host up for so long
		err = ringsThenSentinel(t, true, simPatience)
	}
	require.ErrorContains(t, err, noticed)
	require.NotContains(t, err.Error(), "opening the backend")
}

// ringsThenSentinel returns the error of sums after rings, on a machine that finds a deadlock after so long without a move.
func ringsThenSentinel(t *testing.T, filled bool, patience time.Duration) error {
	t.Helper()
	l, err := symheap.NewLayout(2, leastMemory(2))
	require.NoError(t, err)
	sim := kerneled(t, cudasim.Config{Devices: 2, Seed: *seed, Patience: patience})
	defer sim.Close()
	d := *sim.Driver()
	names := &deaf{names: map[cuda.Function]string{}}
	d.ModuleGetFunction = names.named(sim.Driver())
	d.GraphExecKernelNodeSetParams = nil // kernels are launched, then
	launch := d.LaunchKernel
	d.LaunchKernel = func(f cuda.Function, blocks, threads, shared uint32, s cuda.Stream, args unsafe.Pointer) cuda.Result {
		if filled && names.of(f) == ptx.FillLines && (*ptx.FillArgs)(args).Lines*16 < uint64(l.SentinelBytes()) {
			return cuda.Success
		}
		return launch(f, blocks, threads, shared, s, args)
	}
	groups, err := pg.InProcess(t.Context(), 2, pg.Config{})
	require.NoError(t, err)
	errs := make(chan error, 2)
	for i, g := range groups {
		go func() {
			errs <- life(t.Context(), g, &d, i, 16*l.RingSlot, overSentinel(2), func(r *rank) error { return r.sentinelAndRings(2*l.RingSlot - 64<<10) })
		}()
	}
	err = errors.Join(<-errs, <-errs)
	sim.Drain()
	return err
}

// TestGPUCopyRingOverSentinel does on devices what TestCopyRingOverSentinel does on simulated ones.
func TestGPUCopyRingOverSentinel(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		if size < 2 || size > n {
			continue // as in TestGPURegistered
		}
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			l, err := symheap.NewLayout(size, leastMemory(size))
			require.NoError(t, err)
			onRanks(t, d, size, n, 4*size*l.RingSlot, overSentinel(size), func(r *rank) error { return r.sentinelAndRings(2 * l.RingSlot) })
		})
	}
}

// TestShortEnd checks how the last step of a ring is cut: only where it is copied out, and where it is long, without a gap.
func TestShortEnd(t *testing.T) {
	t.Parallel()
	for _, count := range []int{leastCut, 6 * leastCut, 60*leastCut + 12345} {
		s := plan.Shape{Coll: plan.AllGather, Rank: 1, Size: 3, Elem: ringUnit, Lanes: 2, Chunk: (count + 1) / 2, Count: count}
		p, err := ring.AllGather(s)
		require.NoError(t, err)
		whole, all := interleaved(p), shortEnd(interleaved(p))
		last := whole[len(whole)-1]
		if last.Dst.Len < leastCut {
			require.Equal(t, whole, all)
			continue
		}
		require.Len(t, all, len(whole)+1)
		early, end := all[len(all)-2], all[len(all)-1]
		for _, of := range [][3]plan.Span{{last.Src, early.Src, end.Src}, {last.Dst, early.Dst, end.Dst}} {
			require.Equal(t, of[0].Off, of[1].Off)
			require.Equal(t, of[1].Off+of[1].Len, of[2].Off)
			require.Equal(t, of[0].Off+of[0].Len, of[2].Off+of[2].Len)
			require.Equal(t, of[0].Len/5, of[2].Len)
		}
		s.Coll, s.Count = plan.ReduceScatter, count
		p, err = ring.ReduceScatter(s)
		require.NoError(t, err)
		require.Equal(t, interleaved(p), shortEnd(interleaved(p)), "what is reduced is not cut")
	}
}

// TestLongSlices takes slices that are cut at the end.
func TestLongSlices(t *testing.T) {
	t.Parallel()
	const part = 2*leastCut*ringUnit + 12
	o := Options{Rules: []Rule{{Coll: plan.AllGather, Algorithm: CopyRing, Blocks: 3, Threads: 512}}}
	onRanks(t, simulated(t, 2).Driver(), 2, 2, 2*part+1<<20, o, func(r *rank) error { return r.gathersInPlace(part / 4) })
}
