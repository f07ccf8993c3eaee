package peer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// fusing takes Fused for all sums from some size on, and gathers, in slices of so many bytes at most. It takes Sentinel and
// Tiles for others, in a symmetric heap that is small.
func fusing(size, blocks, slice int) Options {
	return Options{Memory: max(8<<20, leastMemory(size)), Rules: []Rule{{Coll: plan.AllReduce, MaxBytes: 40 << 10, Algorithm: Sentinel, Blocks: blocks, Threads: 64},
		{Coll: plan.AllReduce, MaxBytes: 100 << 10, Algorithm: Tiles, Blocks: blocks, Threads: 64},
		{Coll: plan.AllReduce, Algorithm: Fused, Blocks: blocks, Threads: 64, Tile: slice},
		{Coll: plan.AllGather, MaxBytes: 100 << 10, Algorithm: Fused, Blocks: blocks, Threads: 64, Tile: slice},
		{Coll: plan.AllToAll, Algorithm: Fused, Blocks: blocks, Threads: 64, Tile: slice},
		{Coll: plan.Broadcast, MaxBytes: 10 << 10, Algorithm: Sentinel, Blocks: blocks, Threads: 64},
		{Coll: plan.Broadcast, Algorithm: Fused, Blocks: blocks, Threads: 64, Tile: slice},
		{Coll: plan.ReduceScatter, Algorithm: Fused, Blocks: blocks, Threads: 64, Tile: slice},
		{Coll: plan.Reduce, Algorithm: Fused, Blocks: blocks, Threads: 64, Tile: slice}}}
}

// TestFused takes lengths around whole units, spans and slices, at all alignments, with Tiles and Sentinel before and between.
func TestFused(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 5, 8) {
		for _, blocks := range []int{1, 3} {
			t.Run(fmt.Sprintf("ranks=%d/blocks=%d", size, blocks), func(t *testing.T) {
				t.Parallel()
				onSim(t, size, fusing(size, blocks, 20<<10), func(r *rank) error {
					for i, n := range []int{120_000, 300, 131_072, 131_073, 30_000, 200_001, 11_000, 180_003} {
						c := trial{dtype: colligo.Uint8, op: colligo.Max, count: n, shift: 16 * (i % 2), async: i%2 == 1}
						if i >= 3 {
							c.shift = i % 5
						}
						if err := r.allReduce(c); err != nil {
							return err
						}
					}
					return nil
				}, reduction{colligo.Uint8, colligo.KindMax})
			})
		}
	}
}

// TestFusedApart has some ranks' tensors at multiples of 16 and others' not, so that some send by engines and some by stores.
func TestFusedApart(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			onSim(t, size, fusing(size, 2, 0), func(r *rank) error {
				for odd := range size {
					c := trial{dtype: colligo.Float32, op: colligo.Sum, count: 50_001}
					if r.g.Rank() == odd {
						c.shift = 1
					}
					if err := r.allReduce(c); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// TestFusedGathers gathers and exchanges parts around whole spans and slices, in place and not, aligned and not, from one tensor and many.
func TestFusedGathers(t *testing.T) {
	t.Parallel()
	moveBehind(t, fewer(2, 3, 5), func(r *rank) error {
		for _, n := range []int{8 << 10, 2048, 5004, 5000, 20_000} {
			if err := first(r.gathersInPlace(n), func() error { return r.gathers(n, 4*(n%8)) }); err != nil {
				return err
			}
		}
		return first(r.moves(3000),
			func() error { return r.moves(20_000) },
			func() error { return r.lists(3000) },
			func() error { return r.swapped(20_004) },
			func() error { return r.swapped(40_964) })
	})
}

// moveBehind has groups of some sizes do what is to go behind engines, without folding anything.
func moveBehind(t *testing.T, sizes []int, f func(r *rank) error) {
	for _, size := range sizes {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			d, launched := spied(simulated(t, size).Driver())
			onRanks(t, d, size, size, simHalf, fusing(size, 2, 20<<10), func(r *rank) error {
				if err := r.forgets(launched); err != nil {
					return err
				}
				return f(r)
			})
			require.True(t, launched.has(ptx.MoveFused))
		})
	}
}

// forgets has a spy forget what was launched while the group was opened.
func (r *rank) forgets(launched *spy) error {
	if err := first(r.broadcastBytes(100, 0, 0), func() error { return r.g.Barrier(r.ctx) }); err != nil {
		return err
	}
	launched.clear()
	return r.g.Barrier(r.ctx)
}

// gathers checks an all_gather of n elements that lie so many from the beginning.
func (r *rank) gathers(n, shift int) error {
	d := colligo.Int32
	var whole []byte
	for q := range r.g.Size() {
		whole = append(whole, values(d, colligo.KindSum, q, n)...)
	}
	in, out := r.tensor(0, d, shift, n), r.tensor(1, d, 0, n*r.g.Size())
	return r.tryCaptured(2, in, values(d, colligo.KindSum, r.g.Rank(), n), out, whole, func() error { return r.g.AllGatherIntoTensor(r.ctx, out, in) })
}

// swapped checks an all_to_all of n elements for each rank at multiples of 16.
func (r *rank) swapped(n int) error {
	d, size, me := colligo.Int32, r.g.Size(), r.g.Rank()
	var mine, theirs []byte
	for q := range size {
		mine = append(mine, values(d, colligo.KindSum, me*size+q, n)...)
		theirs = append(theirs, values(d, colligo.KindSum, q*size+me, n)...)
	}
	in, out := r.tensor(0, d, 0, n*size), r.tensor(1, d, 0, n*size)
	return r.tryCaptured(2, in, mine, out, theirs, func() error { return r.g.AllToAllSingle(r.ctx, out, in, nil, nil) })
}

// TestFusedBroadcasts broadcasts lengths around whole units, spans and slices, from all roots, at all alignments, also from graphs.
func TestFusedBroadcasts(t *testing.T) {
	t.Parallel()
	moveBehind(t, fewer(2, 3, 4, 8), func(r *rank) error {
		size := r.g.Size()
		for i, n := range []int{40_000, 61_440, 61_441, 500, 10_241, 163_841, 20_480} {
			if err := first(r.broadcastBytes(n, 16*(i%2), i%size), func() error { return r.broadcastBytes(n, i, (i+1)%size) }); err != nil {
				return err
			}
		}
		return r.broadcastGraph(50_000)
	})
}

// TestFusedReduces reduces to all roots and scatters sums, also from graphs. Parts are around whole units, spans and slices,
// aligned and not. Two ranks reduce behind engines, three by tiles.
func TestFusedReduces(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 3} {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			d, launched := spied(simulated(t, size).Driver())
			onRanks(t, d, size, size, simHalf, fusing(size, 2, 20<<10), func(r *rank) error {
				for _, n := range []int{40_000, 15_361, 15_360, 2048, 500, 20_484} {
					if err := first(r.reduces(colligo.Float32, n),
						func() error { return r.averages(n, 0) },
						func() error { return r.averages(n, 4) }); err != nil {
						return err
					}
				}
				return nil
			})
			require.Equal(t, size == 2, launched.has(ptx.AllReduceFused))
		})
	}
}

// averages checks reduce_scatters of averages, in place and not, of n elements for each rank that lie so many from the beginning.
func (r *rank) averages(n, shift int) error {
	d, size, me := colligo.Float32, r.g.Size(), r.g.Rank()
	all, err := reduced(d, colligo.Avg, size, n*size)
	if err != nil {
		return err
	}
	in, out := r.tensor(0, d, shift, n*size), r.tensor(1, d, 0, n)
	own, want := inputs(d, colligo.KindAvg, size, me, n*size), all[4*n*me:4*n*(me+1)]
	if err := r.tryCaptured(2, in, own, out, want, func() error { return r.g.ReduceScatterTensor(r.ctx, out, in, colligo.Avg) }); err != nil {
		return err
	}
	var list []colligo.Tensor // one rank's come one by one
	for q := range size {
		list = append(list, in.Slice(q*n, (q+1)*n))
	}
	if err := r.try("reduce_scatter of a list", in, own, out, want, func() error {
		if me == 0 {
			return r.g.ReduceScatterTensor(r.ctx, out, in, colligo.Avg)
		}
		return r.g.ReduceScatter(r.ctx, out, list, colligo.Avg)
	}); err != nil {
		return err
	}
	whole := slices.Concat(own[:4*n*me], want, own[4*n*(me+1):])
	return r.tryCaptured(2, in, own, in, whole, func() error {
		return r.g.ReduceScatterTensor(r.ctx, in.Slice(n*me, n*(me+1)), in, colligo.Avg)
	})
}

// TestFusedUnwatched enqueues sums in an order that a seed picks, by all algorithms that share memory with the fused ring. No
// host is between them, and some are in a graph that is replayed.
func TestFusedUnwatched(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4) {
		for i := range seeds(2) {
			t.Run(fmt.Sprintf("ranks=%d/seed=%d", size, *seed+i), func(t *testing.T) {
				t.Parallel()
				of := *seed*100 + i
				o := fusing(size, 1+int(i)%3, 16<<10)
				o.Rules = append(o.Rules, Rule{Coll: plan.AllGather, Algorithm: CopyRing, Blocks: 3, Threads: 64})
				onRanks(t, seeded(t, size, of).Driver(), size, size, simHalf, o, func(r *rank) error {
					return r.unseenSums(rand.New(rand.NewPCG(of, 6)))
				})
			})
		}
	}
}

// unseenSums sums, gathers and broadcasts, some of it in a graph.
func (r *rank) unseenSums(random *rand.Rand) error {
	x := r.tensor(0, colligo.Float32, 0, 120_000)
	if err := first(r.put(x, make([]byte, x.Size())),
		func() error { return r.put(r.tensor(1, colligo.Float32, 0, 120_000), make([]byte, x.Size())) }); err != nil {
		return err
	}
	some := func(n int) error {
		for range n {
			n := []int{300, 6000, 20_000, 50_000, 50_001, 120_000}[random.IntN(6)]
			if err := r.anyCall([]int{0, 1, 2, 3, 4, 7, 7}[random.IntN(7)], random.IntN(r.g.Size()), n); err != nil {
				return err
			}
		}
		return nil
	}
	for _, n := range []int{6000, 20_000, 50_000} {
		if err := first(r.anyCall(0, 0, n),
			func() error { return r.anyCall(2, 0, n) },
			func() error { return r.anyCall(3, 0, n) },
			func() error { return r.anyCall(4, 0, n) },
			func() error { return r.anyCall(7, 0, n) }); err != nil {
			return err
		}
	}
	if err := r.synchronize(); err != nil {
		return err
	}
	graph, err := r.captured(func() error { return some(5) })
	if err != nil {
		return err
	}
	for range 3 {
		if err := first(some(4),
			func() error { return r.launch(graph) },
			func() error { return r.launch(graph) },
			func() error { return some(2) },
			func() error { return r.launch(graph) }); err != nil {
			return err
		}
	}
	return first(r.synchronize(), func() error { return r.giveBack(graph) })
}

// TestFusedLeavesNothingOut leaves out each wait, of streams and of the kernel, and expects the simulator to find that something is
// not ordered any more.
func TestFusedLeavesNothingOut(t *testing.T) {
	t.Parallel()
	for what, leave := range map[string]func(x *deaf, r *rank, s *engines){
		"nothing":     func(*deaf, *rank, *engines) {},
		"go":          func(x *deaf, _ *rank, s *engines) { x.words[s.gate.Stream] = true },
		"the gate":    func(x *deaf, _ *rank, s *engines) { x.events[s.copy.Stream] = true },
		"the meeting": func(x *deaf, r *rank, _ *engines) { x.meets[r.stream] = 1 },
	} {
		if underRace && what != "nothing" {
			continue // as in missesEach
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			leaveOut(t, Fused, what == "nothing", leave)
		})
	}
	missesEach(t, fusing(4, 2, 0), func(r *rank, random *rand.Rand) error { return r.unseenSums(random) }, map[string]model.Wait{
		"nothing": 0, "freed": model.WaitForFreed, "room": model.WaitForRoom, "taken": model.WaitForTaken})
}

// TestFusedSerial has one rank's driver wait for each kernel, or ranks share a device: nobody's kernel may wait for what is enqueued
// after it.
func TestFusedSerial(t *testing.T) {
	t.Parallel()
	for what, devices := range map[string]int{"blocking": 3, "shared": 2} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, devices)
			d, launched := spied(sim.Process().Driver())
			other := *sim.Process().Driver()
			other.Blocking = what == "blocking"
			drivers := []*cuda.Driver{d, &other, sim.Process().Driver()}
			onDrivers(t, func(rank int) *cuda.Driver { return drivers[rank] }, 3, devices, simHalf, fusing(3, 2, 0), func(r *rank) error {
				return first(r.forgets(launched),
					func() error { return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: 50_000}) },
					func() error { return r.gathers(6000, 0) },
					func() error { return r.broadcastBytes(50_000, 0, 1) })
			})
			require.True(t, launched.has(ptx.AllReduceSentinel))
			require.True(t, launched.has(ptx.BroadcastSentinel))
			require.False(t, launched.has(ptx.AllReduceFused))
			require.False(t, launched.has(ptx.MoveFused))
		})
	}
}

// TestSlices checks that what a rank sends the next one takes, that all parts are whole, and that a slot has room for a slice.
func TestSlices(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 3, 4, 8} {
		l, err := symheap.NewLayout(size, DefaultMemory)
		require.NoError(t, err)
		for _, bytes := range []int{1 << 20, 1<<28 + 5, 1<<30 - 3} {
			for _, tile := range []int{0, 1 << 20} {
				b := &launcher{size: size, layout: &l, args: &arguments{}}
				b.args.fused = ptx.FusedArgs{Bytes: uint64(bytes), Part: uint64(up((bytes+size-1)/size, 16)), Steps: uint32(2*size - 2)}
				cutFused(b, &Rule{Tile: tile})
				requireSlices(t, b)
			}
		}
	}
}

func requireSlices(t *testing.T, b *launcher) {
	a := b.args.fused
	require.LessOrEqual(t, int(a.Slice), b.layout.RingSlot)
	require.GreaterOrEqual(t, a.Slices(), 2)
	a.Group.Size = uint32(b.size)
	total := uint64(0)
	for rank := range b.size {
		a.Group.Rank = uint32(rank)
		next := a
		next.Group.Rank = uint32((rank + 1) % b.size)
		for d := range b.size {
			a.Ins[d], next.Ins[d] = uint64((rank+d)%b.size)*a.Part, uint64((rank+1+d)%b.size)*a.Part
		}
		for k := range int(a.Steps) * a.Slices() {
			cut := a.Sent(k)
			require.Equal(t, cut.In, next.Taken(k).In)
			require.Equal(t, cut.Bytes, next.Taken(k).Bytes)
			if from, to := a.Copied(cut.Bytes); from < to {
				require.Zero(t, from%ptx.SentinelSpan)
				require.Less(t, cut.Bytes-to, uint64(16))
			}
			if k < a.Slices() {
				total += cut.Bytes
			}
		}
	}
	require.Equal(t, a.Bytes, total)
}

// TestGPUFused sums on devices, with slices as large as slots and smaller ones, with tiles between them, aligned and not, and from
// graphs.
func TestGPUFused(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		if size < 2 || size > n {
			continue // a device of its own for each
		}
		for _, slice := range []int{0, 1 << 20} {
			t.Run(fmt.Sprintf("ranks=%d/slice=%d", size, slice), func(t *testing.T) {
				o := Options{Rules: []Rule{{Coll: plan.AllReduce, MaxBytes: 1 << 20, Algorithm: Tiles, Blocks: 64, Threads: 512},
					{Coll: plan.AllReduce, Algorithm: Fused, Blocks: 32, Threads: 512, Tile: slice},
					{Coll: plan.AllGather, Algorithm: Fused, Blocks: 32, Threads: 512, Tile: slice},
					{Coll: plan.AllToAll, Algorithm: Fused, Blocks: 32, Threads: 512, Tile: slice},
					{Coll: plan.Broadcast, Algorithm: Fused, Blocks: 32, Threads: 512, Tile: slice},
					{Coll: plan.ReduceScatter, Algorithm: Fused, Blocks: 32, Threads: 512, Tile: slice},
					{Coll: plan.Reduce, Algorithm: Fused, Blocks: 32, Threads: 512, Tile: slice}}}
				onRanks(t, d, size, n, 80<<20, o, func(r *rank) error {
					for i, n := range []int{1 << 24, 200_000, 5_000_001, 16_000_000, 100_000, 3_000_003, 3_000_000} {
						c := trial{dtype: colligo.Float32, op: colligo.Sum, count: n, shift: i % 3, async: i%2 == 1}
						if err := r.allReduce(c); err != nil {
							return err
						}
					}
					return first(r.broadcastBytes(50_000_001, 0, 1),
						func() error { return r.broadcastBytes(3_000_000, 5, 0) },
						func() error { return r.broadcastGraph(10_000_000) },
						func() error { return r.gathersInPlace(1 << 20) },
						func() error { return r.swapped(3_000_000) },
						func() error { return r.reduces(colligo.Float32, 3_000_001) },
						func() error { return r.averages(2_000_000, 0) },
						func() error { return r.averages(500_000, 1) },
						func() error { return r.gathers(2_000_000, 0) },
						func() error { return r.gathers(1_000_000, 1) },
						func() error { return r.replayed(4_000_000) },
						func() error { return r.replayed(2_000_001) })
				})
			})
		}
	}
}

// TestGPUFusedTypes reduces each type by each operation on devices.
func TestGPUFusedTypes(t *testing.T) {
	d, n := gpus(t)
	if n < 2 {
		return
	}
	o := Options{Rules: []Rule{{Coll: plan.AllReduce, Algorithm: Fused, Blocks: 32, Threads: 512, Tile: 64 << 10}}}
	onRanks(t, d, 2, n, gpuHalf, o, func(r *rank) error {
		for _, c := range allTypes(300_001) {
			if err := r.allReduce(c); err != nil {
				return err
			}
		}
		return nil
	})
}
