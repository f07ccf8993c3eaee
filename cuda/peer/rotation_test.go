package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/plan"
)

// rotated makes little symmetric heaps and takes the algorithms that send to one peer at a time. They store straight into
// outputs that are in registered memory.
func rotated(blocks int) Options {
	o := small(Tiles)
	lines := []Rule{}
	for c := plan.AllReduce; c <= plan.Scatter; c++ {
		for _, algorithm := range []Algorithm{Direct, Rotation, Chain} {
			if algorithm.Serves(c) {
				lines = append(lines, Rule{Coll: c, Registered: algorithm == Direct, Algorithm: algorithm, Blocks: blocks, Threads: 64, Tile: 1 << 10})
			}
		}
	}
	o.Rules = append(lines, o.Rules...)
	return o
}

// TestRotations mixes them with kernels that use the same tiles, flags and counters, with parts that are no whole tiles.
func TestRotations(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 8) {
		for _, registers := range []bool{false, true} {
			t.Run(fmt.Sprintf("ranks=%d/registered=%v", size, registers), func(t *testing.T) {
				t.Parallel()
				onSim(t, size, rotated(3), func(r *rank) error {
					if registers {
						if err := r.registerAll(); err != nil {
							return err
						}
					}
					for _, n := range []int{0, 1, 300, 1000, 7001} {
						if err := first(r.moves(n),
							func() error { return r.lists(n % 1500) },
							func() error { return r.broadcasts(n) },
							func() error { return r.moves(n) }); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

// registerAll registers the whole arena.
func (r *rank) registerAll() error {
	_, err := r.g.Register(r.ctx, colligo.OnDevice(r.device.Place(), uintptr(r.arena), 2*r.half, colligo.Uint8))
	return err
}

// broadcasts checks broadcast of tensors that begin at multiples of 16.
func (r *rank) broadcasts(n int) error {
	at := r.tensor(0, colligo.Int32, 0, n)
	for root := range r.g.Size() {
		own := func(q int) []byte { return values(colligo.Int32, colligo.KindSum, q, n) }
		if err := r.try(fmt.Sprintf("broadcast from %d", root), at, own(r.g.Rank()), at, own(root), func() error {
			return r.g.Broadcast(r.ctx, at, root)
		}); err != nil {
			return err
		}
	}
	return nil
}

// TestRotationsKeepNothing checks that the window of two tiles is what keeps a slot until it is used. With one block and many
// tiles every slot is filled again and again, by ranks that run at their own pace.
func TestRotationsKeepNothing(t *testing.T) {
	t.Parallel()
	onSim(t, 3, rotated(1), func(r *rank) error {
		for range 3 {
			if err := first(r.moves(20_000), func() error { return r.broadcasts(20_000) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestRotationsAmongOthers has every kernel that uses tile memory follow every other, under many seeds.
func TestRotationsAmongOthers(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 5, 8) {
		for i := range max(2, 10/size) {
			t.Run(fmt.Sprintf("ranks=%d/seed=%d", size, i), func(t *testing.T) {
				t.Parallel()
				onRanks(t, seeded(t, size, *seed*100+uint64(i)).Driver(), size, size, simHalf, rotated(2), func(r *rank) error {
					return r.anyOrder(uint64(i), 12, 3000)
				})
			})
		}
	}
}

// anyOrder takes some collectives of about n elements in an order that a seed picks, the same on all ranks.
func (r *rank) anyOrder(seed uint64, some, n int) error {
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range some {
		var err error
		switch n := rnd.IntN(n); rnd.IntN(5) {
		case 0:
			err = r.moves(n)
		case 1:
			err = r.broadcasts(n)
		case 2:
			err = r.reduces(colligo.Float32, n)
		case 3:
			err = r.lists(n / 4)
		default:
			err = first(r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}), func() error { return r.splits(n / 8) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestRotationsWrap takes the largest tiles on the largest grid, where a block has room for the fewest. It fills each slot
// several times, with the other kernels' largest tiles between.
func TestRotationsWrap(t *testing.T) {
	t.Parallel()
	const n, half = 500_000, 7 << 20
	o := Options{Memory: 12 << 20}
	for c := plan.AllReduce; c <= plan.Scatter; c++ {
		for _, algorithm := range []Algorithm{Rotation, Chain, Tiles} {
			if algorithm.Serves(c) {
				o.Rules = append(o.Rules, Rule{Coll: c, Algorithm: algorithm, Blocks: symheap.MaxBlocks, Threads: 64})
			}
		}
	}
	onRanks(t, simulated(t, 3).Driver(), 3, 3, half, o, func(r *rank) error {
		d, me := colligo.Int32, r.g.Rank()
		in, out := r.tensor(0, d, 0, n), r.tensor(1, d, 0, 3*n)
		own, root := values(d, colligo.KindSum, me, n), values(d, colligo.KindSum, 1, n)
		for range seeds(2) { // the second time from where the first has ended
			if err := first(r.try("broadcast", in, own, in, root, func() error { return r.g.Broadcast(r.ctx, in, 1) }),
				func() error {
					return r.try("all_gather", in, own, out, all(d, 3, n), func() error { return r.g.AllGatherIntoTensor(r.ctx, out, in) })
				},
				func() error { return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// all returns the values of all ranks.
func all(d colligo.DType, size, n int) (whole []byte) {
	for q := range size {
		whole = append(whole, values(d, colligo.KindMax, q, n)...)
	}
	return whole
}

// TestRotationsStop leaves rank 1 out of a rotation that the others have begun.
func TestRotationsStop(t *testing.T) {
	t.Parallel()
	for algorithm, c := range map[Algorithm]plan.Coll{Rotation: plan.AllGather, Chain: plan.Broadcast, LL128: plan.Broadcast} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			o := rotated(2)
			if algorithm == LL128 {
				o = small(LL128)
			}
			o.Timeout = waitedOut
			onRanks(t, abortable(t, 3).Driver(), 3, 3, simHalf, o, func(r *rank) error { return r.leftOut(c) })
		})
	}
}

func (r *rank) leftOut(c plan.Coll) error {
	const n = 20_000
	in, out := r.tensor(0, colligo.Int32, 0, n), r.tensor(1, colligo.Int32, 0, 3*n)
	run := func() error {
		if c == plan.Broadcast {
			return r.g.BroadcastAsync(r.ctx, in, 0).Synchronize(context.Background())
		}
		return r.g.AllGatherIntoTensorAsync(r.ctx, out, in).Synchronize(context.Background())
	}
	if err := first(r.put(in, make([]byte, in.Size())), run); err != nil {
		return err
	}
	if r.g.Rank() == 1 {
		return r.failed("it waits for rank")
	}
	if err := run(); !errors.Is(err, colligo.ErrTimeout) {
		return errors.Join(errors.New("no timeout"), err)
	}
	return r.failed("it waits for rank 1")
}

// TestRotationsUnwatched replays a graph of rotations and others again and again before any host looks, so that only what the
// kernels say orders them.
func TestRotationsUnwatched(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 5) {
		for i := range 3 {
			t.Run(fmt.Sprintf("ranks=%d/seed=%d", size, i), func(t *testing.T) {
				t.Parallel()
				sim := seeded(t, size, *seed*100+uint64(i), reduction{colligo.Float32, colligo.KindMax})
				o := rotated(2)
				for j := range o.Rules {
					o.Rules[j].Tile = []int{1 << 10, 4 << 10, 8 << 10}[i]
				}
				onRanks(t, sim.Driver(), size, size, simHalf, o, (*rank).unwatched)
			})
		}
	}
}

func (r *rank) unwatched() error {
	const n = 12_000
	d, size, me := colligo.Float32, r.g.Size(), r.g.Rank()
	in, out := r.tensor(0, d, 0, n), r.tensor(1, d, 0, size*n)
	own := values(d, colligo.KindMax, me, n)
	part := out.Slice(me*n, me*n+n)
	run := func() error {
		return first(r.g.AllGatherIntoTensor(r.ctx, out, in),
			func() error { return r.g.Broadcast(r.ctx, out.Slice(0, n), 0) },
			func() error { return r.g.AllReduce(r.ctx, out, colligo.Max) },
			func() error { return r.g.Broadcast(r.ctx, out.Slice(0, 2*n), size-1) },
			func() error { return r.g.AllReduce(r.ctx, part, colligo.Max) },
			func() error { return r.g.AllGatherIntoTensor(r.ctx, out, in) },
			func() error { return r.g.AllGatherIntoTensor(r.ctx, out, in) })
	}
	if err := r.try("before capture", in, own, out, all(d, size, n), run); err != nil {
		return err
	}
	graph, err := r.captured(run)
	if err != nil {
		return err
	}
	if err := r.try("replays", in, own, out, all(d, size, n), func() error {
		return first(r.launch(graph), func() error { return r.launch(graph) }, func() error { return r.launch(graph) })
	}); err != nil {
		return err
	}
	return r.giveBack(graph)
}

// TestRotationGrid checks that a rotation's tiles fit into pieces, and that a block has room for some.
func TestRotationGrid(t *testing.T) {
	for size := 2; size <= symheap.MaxRanks; size++ {
		l, err := symheap.NewLayout(size, DefaultMemory)
		require.NoError(t, err)
		b := &launcher{layout: &l, size: size}
		for blocks := 1; blocks <= symheap.MaxBlocks; blocks++ {
			g, tile, pieces := b.rotationGrid(&Rule{Blocks: blocks, Threads: 32}, 1<<30)
			require.EqualValues(t, leastRotation, g.Threads)
			require.LessOrEqual(t, g.Blocks*pieces, uint32(2*symheap.MaxBlocks))
			require.Zero(t, pieces%2+tile%16)
			inPiece := uint32(symheap.TileDepth*l.TileSlot) / tile
			require.GreaterOrEqual(t, inPiece*pieces, uint32(rotationDepth), "%d ranks, %d blocks", size, blocks)
			require.Positive(t, inPiece)
		}
	}
}

// TestRotationGraph replays captured operations.
func TestRotationGraph(t *testing.T) {
	t.Parallel()
	onSim(t, 3, rotated(2), func(r *rank) error {
		const n = 3000
		me := r.g.Rank()
		in, out := r.tensor(0, colligo.Int32, 0, n), r.tensor(1, colligo.Int32, 0, 3*n)
		want := bytes.Repeat(values(colligo.Int32, colligo.KindSum, 1, n), 3)
		run := func() error {
			return first(r.g.Broadcast(r.ctx, in, 1), func() error { return r.g.AllGatherIntoTensor(r.ctx, out, in) })
		}
		own := values(colligo.Int32, colligo.KindSum, me, n)
		return r.tryCaptured(3, in, own, out, want, run)
	})
}

func TestAlgorithmsServe(t *testing.T) {
	require.False(t, Rotation.Serves(plan.Gather))
	require.False(t, Chain.Serves(plan.AllGather))
	require.True(t, Direct.Serves(plan.Broadcast))
}

// TestRotationsStopSilently stops rank 1 of a chain before its root has begun. Rank 2 must not take for tiles what never came.
func TestRotationsStopSilently(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{Chain, Direct, LL128} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			stopped, looked := make(chan struct{}), make(chan struct{})
			o := rotated(2)
			if algorithm == LL128 {
				o = small(LL128)
			}
			onRanks(t, abortable(t, 3).Driver(), 3, 3, simHalf, o, func(r *rank) error {
				x := r.tensor(0, colligo.Int32, 0, 5000)
				if algorithm == Direct {
					if err := r.registerAll(); err != nil {
						return err
					}
				}
				if err := first(r.put(x, make([]byte, x.Size())),
					func() error { return r.g.Broadcast(r.ctx, x, 0) },
					r.synchronize); err != nil {
					return err
				}
				if r.g.Rank() == 0 {
					<-looked
					r.g.Abort(errors.New("no more of this"))
					return nil
				}
				b, err := r.backend()
				if err := first(err, func() error { return r.g.Broadcast(r.ctx, x, 0) }); err != nil {
					return err
				}
				if r.g.Rank() == 1 {
					b.Failure.Raise()
					err = r.synchronize()
					close(stopped)
					return errors.Join(err, r.awaitFailure())
				}
				<-stopped
				err = r.busyFor(200 * time.Millisecond)
				close(looked)
				return errors.Join(err, r.awaitFailure())
			})
		})
	}
}

// awaitFailure waits until the group has failed: Close names what is pending when it comes first.
func (r *rank) awaitFailure() error {
	for end := time.Now().Add(time.Minute); r.g.Err() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("the group has not failed")
		}
	}
	return nil
}

// busyFor checks that the stream does not end in so much time.
func (r *rank) busyFor(d time.Duration) error {
	if ended, err := r.endsWithin(d); ended || err != nil {
		return errors.Join(errors.New("the broadcast has ended, but nobody has begun it"), err)
	}
	return nil
}
