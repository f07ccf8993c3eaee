package peer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/plan"
)

// bySentinel takes Sentinel for all that it serves, on a grid of so many blocks, and now and then something else.
func bySentinel(blocks int) Options {
	o := Options{Memory: 24 << 20, Rules: []Rule{{Coll: plan.AllReduce, MaxBytes: 100, Algorithm: LL}, {Coll: plan.Broadcast, MaxBytes: 100, Algorithm: LL},
		{Coll: plan.AllReduce, Algorithm: Sentinel}, {Coll: plan.Broadcast, Algorithm: Sentinel}}}
	for i := range o.Rules {
		o.Rules[i].Blocks, o.Rules[i].Threads = blocks, 64
	}
	return o
}

// TestSentinel takes lengths around whole lines, warp chunks and iterations, from all roots, at all alignments.
func TestSentinel(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 5, 8) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			onSim(t, size, bySentinel(3), func(r *rank) error {
				for i, n := range []int{1, 15, 17, 512, 513, 6*512 + 1, 24*512 - 1, 24*512 + 1, 31 * 512, 100_003, 3} {
					root := i % size
					c := trial{dtype: colligo.Float32, op: colligo.Sum, count: n, shift: i % 4, async: i%2 == 1}
					if err := first(r.broadcastBytes(n, (i+3*root)%17, root),
						func() error { return r.allReduce(c) },
						func() error { return r.broadcastBytes(n, i%17, (root+1)%size) }); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// TestSentinelTypes reduces each type by each operation.
func TestSentinelTypes(t *testing.T) {
	t.Parallel()
	f, all := each(thinned(allTypes(1501)))
	onSim(t, 3, bySentinel(2), f, all...)
}

// creditedUpTo has the next steps of all warps be of number n, as if so many had been moved.
func (r *rank) creditedUpTo(n uint32) error {
	b, err := r.backend()
	if err != nil {
		return err
	}
	warps := b.layout.SentinelBlocks * 16
	if err := first(r.g.Barrier(r.ctx),
		func() error { return r.setWords(b, b.layout.Credits, warps, n) },
		func() error { return r.setWords(b, b.layout.Counts, 2*warps, n) }); err != nil {
		return err
	}
	for w := range warps { // the place is behind the number
		if err := r.setWords(b, b.layout.Counts+8*w+4, 1, n%uint32(b.layout.SentinelSlots)); err != nil {
			return err
		}
	}
	return r.g.Barrier(r.ctx)
}

// TestSentinelNumbersWrap has the numbers of steps pass 0, or what an int32 holds.
func TestSentinelNumbersWrap(t *testing.T) {
	t.Parallel()
	for i, from := range []uint32{1<<32 - 3, 1<<32 - 8, 1<<31 - 3} {
		t.Run(fmt.Sprintf("from=%#x", from), func(t *testing.T) {
			t.Parallel()
			o := bySentinel(2)
			o.Memory = leastMemory(3)
			onRanks(t, seeded(t, 3, *seed*100+uint64(i)).Driver(), 3, 3, simHalf, o, func(r *rank) error {
				if err := first(r.broadcastBytes(200, 0, 0), func() error { return r.creditedUpTo(from) }); err != nil {
					return err
				}
				for k, n := range []int{200, 60_000, 300, 30_000} {
					if err := first(r.broadcastBytes(n, 0, k%3),
						func() error { return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n / 4}) }); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// TestSentinelUnwatched enqueues operations by the sentinel protocol in an order that a seed picks. They are of one iteration
// and of several, on all warps and on some. No host is between them, and some are in a graph that is replayed. The test looks
// at the last one's result.
func TestSentinelUnwatched(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 5, 8) {
		for i := range seeds(max(2, 12/uint64(size))) {
			t.Run(fmt.Sprintf("ranks=%d/seed=%d", size, *seed+i), func(t *testing.T) {
				t.Parallel()
				of := *seed*100 + i
				onRanks(t, seeded(t, size, of).Driver(), size, size, chainHalf, bySentinel(1+int(i)%3), func(r *rank) error {
					return r.unseenLL128(rand.New(rand.NewPCG(of, 5)), 20_000)
				})
			})
		}
	}
}

// TestSentinelLeaveNothingOut leaves out each wait that only says that memory is free, and expects the simulator to find that something
// is not ordered any more.
func TestSentinelLeaveNothingOut(t *testing.T) {
	t.Parallel()
	missesEach(t, bySentinel(1), ll128Of(20_000), map[string]model.Wait{"nothing": 0, "blank": model.WaitForClear, "sign": model.WaitForCredit,
		"entry": model.WaitForEntry, "last sign": model.WaitForLastCredit})
}

// TestSentinelGraph replays captured broadcasts; TestSentinelUnwatched has sums among them.
func TestSentinelGraph(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			onRanks(t, simulated(t, size).Driver(), size, size, chainHalf, bySentinel(2), func(r *rank) error { return r.broadcastGraph(40_000) })
		})
	}
}

// TestGPUSentinel takes Sentinel on devices, from all roots, on small grids and large ones, alone and from graphs.
func TestGPUSentinel(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		if size < 2 || size > n {
			continue // as in TestGPURegistered
		}
		for _, c := range []Rule{{Blocks: 128, Threads: 512}, {Blocks: 5, Threads: 96}} {
			t.Run(fmt.Sprintf("ranks=%d/grid=%dx%d", size, c.Blocks, c.Threads), func(t *testing.T) {
				o := Options{Rules: []Rule{{Coll: plan.Broadcast, Algorithm: Sentinel, Blocks: c.Blocks, Threads: c.Threads},
					{Coll: plan.AllReduce, Algorithm: Sentinel, Blocks: c.Blocks, Threads: c.Threads}}}
				onRanks(t, d, size, n, gpuHalf, o, (*rank).ll128Chains)
			})
		}
	}
}
