package peer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// chainHalf has room for some rounds of LL128 in the smallest symmetric heaps.
const chainHalf = 2 << 20

// byLL128 has the smallest symmetric heap and takes LL128 for all that it serves, on a grid of so many blocks. It returns how
// many bytes a round has room for if it is not the only one.
func byLL128(t *testing.T, size, blocks int) (o Options, round int) {
	t.Helper()
	o.Memory = leastMemory(size)
	o.Rules = []Rule{{Coll: plan.AllReduce, MaxBytes: 2 << 10, Algorithm: LL}, {Coll: plan.AllReduce, MaxBytes: 40 << 10, Algorithm: LL128TwoShot},
		{Coll: plan.AllReduce, Algorithm: LL128}, {Coll: plan.Broadcast, MaxBytes: chainHalf, Algorithm: LL128}}
	for i := range o.Rules {
		o.Rules[i].Blocks, o.Rules[i].Threads = blocks, 64
	}
	l, err := symheap.NewLayout(size, o.Memory)
	require.NoError(t, err)
	round = l.LL128Slot / ptx.LL128Chunk / (2 * blocks) * (2 * blocks) * ptx.LL128Data
	require.Less(t, 5*round, chainHalf)
	return o, round
}

// broadcastBytes checks broadcast of n bytes, some behind a multiple of 16.
func (r *rank) broadcastBytes(n, shift, root int) error {
	own := func(q int) []byte { return values(colligo.Uint8, colligo.KindSum, q, n) }
	x := r.tensor(0, colligo.Uint8, shift, n)
	return r.try(fmt.Sprintf("broadcast from %d, shifted by %d", root, shift), x, own(r.g.Rank()), x, own(root), func() error {
		return r.g.Broadcast(r.ctx, x, root)
	})
}

// TestLL128Chain takes lengths around whole warps' data, warp chunks and grids, from all roots, at all alignments.
func TestLL128Chain(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 5, 8) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			onSim(t, size, small(LL128), func(r *rank) error {
				for i, n := range []int{1, 7, 120, 121, 479, 480, 481, 2*480 + 1, 6*480 - 1, 6*480 + 1, 12 * 480, 13 * 480, 100_003, 3} {
					for root := range size {
						if err := r.broadcastBytes(n, (i+3*root)%17, root); err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
}

// TestLL128ChainRounds takes even and odd numbers of rounds, among operations that have one.
func TestLL128ChainRounds(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 8) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			o, round := byLL128(t, size, 3)
			onRanks(t, simulated(t, size).Driver(), size, size, chainHalf, o, func(r *rank) error {
				for i, n := range []int{round - 1, round, round + 1, 2 * round, 100, 2*round + 481, 3 * round, 3*round + 1, 4*round + 5000, 480} {
					if err := first(r.broadcastBytes(n, i, i%size),
						func() error { return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n / 8}) }); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// TestLL128ChainNumbersWrap has the numbers of rounds pass 0.
func TestLL128ChainNumbersWrap(t *testing.T) {
	t.Parallel()
	for left := range uint32(6) {
		t.Run(fmt.Sprintf("left=%d", left), func(t *testing.T) {
			t.Parallel()
			o, round := byLL128(t, 3, 4)
			onRanks(t, simulated(t, 3).Driver(), 3, 3, chainHalf, o, func(r *rank) error {
				if err := first(r.broadcastBytes(1, 0, 0), func() error { return r.numbered(^left) }); err != nil {
					return err
				}
				for i, n := range []int{7, 2*round - 1, 300, 3 * round, 121} {
					if err := r.broadcastBytes(n, 0, i%3); err != nil {
						return err
					}
				}
				return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: round})
			})
		})
	}
}

// TestLL128ChainUnwatched enqueues operations by LL128 in an order that a seed picks, of one round and of several. No host is
// between them, and some are in a graph that is replayed. The test looks at the last one's result.
func TestLL128ChainUnwatched(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 5, 8) {
		for i := range seeds(max(2, 12/uint64(size))) {
			t.Run(fmt.Sprintf("ranks=%d/seed=%d", size, *seed+i), func(t *testing.T) {
				t.Parallel()
				of := *seed*100 + i
				o, round := byLL128(t, size, 2+int(i)%3)
				onRanks(t, seeded(t, size, of).Driver(), size, size, chainHalf, o, func(r *rank) error {
					return r.unseenLL128(rand.New(rand.NewPCG(of, 5)), round)
				})
			})
		}
	}
}

func (r *rank) unseenLL128(random *rand.Rand, round int) error {
	x := r.tensor(0, colligo.Float32, 0, chainHalf/4-2*margin)
	if err := first(r.put(x, make([]byte, x.Size())), func() error { return r.anyLL128(random, round, 30) }, r.synchronize); err != nil {
		return err
	}
	graph, err := r.captured(func() error { return r.anyLL128(random, round, 5) })
	if err != nil {
		return err
	}
	for range 3 {
		if err := first(r.launch(graph),
			func() error { return r.anyLL128(random, round, 3) },
			func() error { return r.launch(graph) },
			func() error { return r.launch(graph) }); err != nil {
			return err
		}
	}
	return first(r.broadcastBytes(3*round-7, 1, 1), func() error { return r.giveBack(graph) })
}

// anyLL128 calls some operations, equal on all ranks, two of three of them broadcasts.
func (r *rank) anyLL128(random *rand.Rand, round, some int) error {
	for range some {
		n := []int{400, 3000, round / 2, round + 1, 2 * round, 2*round + 1, 3*round + 1}[random.IntN(7)] / 4
		x := r.tensor(0, colligo.Float32, 0, n)
		var err error
		if what := random.IntN(6); what < 4 {
			err = r.g.Broadcast(r.ctx, x, random.IntN(r.g.Size()))
		} else if what == 4 {
			err = r.g.AllReduce(r.ctx, x, colligo.Sum)
		} else {
			err = r.g.AllReduce(r.ctx, x.Slice(0, min(n, 8<<10)), colligo.Sum)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestLL128ChainLeavesNothingOut leaves out each wait that only says that memory is free, among sums by LL128. It expects the
// simulator to find that something is not ordered any more.
func TestLL128ChainLeavesNothingOut(t *testing.T) {
	t.Parallel()
	o, round := byLL128(t, 4, 2)
	missesEach(t, o, ll128Of(round), map[string]model.Wait{"nothing": 0, "room": model.WaitForRoom, "last": model.WaitForLast,
		"stranger": model.WaitForStranger, "greeting": model.WaitForGreeting})
}

// missesEach leaves out each of some waits, and expects the simulator to find it missing under one of some seeds. Where no
// wait is left out, it expects no fault.
func missesEach(t *testing.T, o Options, f unseen, waits map[string]model.Wait) {
	t.Helper()
	for what, w := range waits {
		if underRace && w != 0 {
			continue // what the simulator finds, Go's race detector does not see
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if w == 0 {
				require.False(t, missed(t, *seed, w, o, f))
				return
			}
			for i := range uint64(20) {
				if missed(t, *seed*100+i, w, o, f) {
					return
				}
			}
			require.Fail(t, "nothing was found")
		})
	}
}

// unseen calls operations, equal on all ranks, between which no host waits.
type unseen func(r *rank, random *rand.Rand) error

// ll128Of calls unseenLL128.
func ll128Of(round int) unseen {
	return func(r *rank, random *rand.Rand) error { return r.unseenLL128(random, round) }
}

// missed reports whether the simulator misses a wait among operations of four ranks, all of which have the options.
func missed(t *testing.T, seed uint64, w model.Wait, o Options, f unseen) bool {
	t.Helper()
	const size = 4
	c := cudasim.Config{Devices: size, Seed: seed, Patience: 2 * time.Second}
	if w == 0 { // nothing hangs, so no limit is to end it soon
		c.Patience, o.Timeout = 0, 0
	}
	sim := kerneled(t, c)
	defer sim.Close()
	require.NoError(t, model.RegisterWithout(sim, w))
	groups, err := pg.InProcess(t.Context(), size, pg.Config{})
	require.NoError(t, err)
	errs := make(chan error, size)
	for i, g := range groups {
		go func() {
			errs <- life(t.Context(), g, sim.Driver(), i, chainHalf, o, func(r *rank) error {
				return f(r, rand.New(rand.NewPCG(seed, 6)))
			})
		}()
	}
	err = errors.Join(<-errs, <-errs, <-errs, <-errs)
	sim.Drain()
	if w == 0 {
		require.NoError(t, err)
	}
	return len(sim.Races()) != 0
}

// TestGPULL128Chain takes LL128 on devices, from all roots, with lengths that do not fit into slots of a small symmetric heap.
func TestGPULL128Chain(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		if size < 2 || size > n {
			continue // as in TestGPURegistered
		}
		for _, memory := range []int{0, leastMemory(size)} {
			t.Run(fmt.Sprintf("ranks=%d/memory=%d", size, memory), func(t *testing.T) {
				o := Options{Memory: memory, Rules: []Rule{{Coll: plan.Broadcast, Algorithm: LL128, Blocks: 32, Threads: 128}}}
				onRanks(t, d, size, n, gpuHalf, o, (*rank).ll128Chains)
			})
		}
	}
}

func (r *rank) ll128Chains() error {
	for i, n := range []int{1, 120, 481, 5000, 100_003, 262_144, 1 << 20, 3<<20 + 5, 20<<20 + 1, 7} {
		for root := range r.g.Size() {
			if err := first(r.broadcastBytes(n, (16*root+i)%32, root),
				func() error { return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n / 64}) }); err != nil {
				return err
			}
		}
	}
	return r.broadcastGraph(1 << 20)
}

// broadcastGraph replays broadcasts from all ranks, one after the other.
func (r *rank) broadcastGraph(n int) error {
	x := r.tensor(0, colligo.Uint8, 0, n)
	own, want := values(colligo.Uint8, colligo.KindSum, r.g.Rank(), n), values(colligo.Uint8, colligo.KindSum, 1, n)
	run := func() error {
		err := r.g.Broadcast(r.ctx, x, 1)
		for root := range r.g.Size() {
			err = first(err,
				func() error { return r.g.Broadcast(r.ctx, x, root) },
				func() error { return r.g.Broadcast(r.ctx, x.Slice(0, n/3), root) })
		}
		return err
	}
	return r.tryCaptured(3, x, own, x, want, run)
}

// TestLL128ChainGraph replays captured broadcasts of one round and of two.
func TestLL128ChainGraph(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			o, round := byLL128(t, size, 3)
			onRanks(t, simulated(t, size).Driver(), size, size, chainHalf, o, func(r *rank) error { return r.broadcastGraph(2 * round) })
		})
	}
}
