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
	"github.com/colligo-go/colligo/plan"
)

// relayed makes little heaps and takes the ways that send to one peer at a time, straight into the outputs if they are in
// registered memory.
func relayed(blocks int) Options {
	o := small(Tiles)
	lines := []Choice{}
	for c := plan.AllReduce; c <= plan.Scatter; c++ {
		for _, way := range []Way{Direct, Turns, Chain} {
			if way.Serves(c) {
				lines = append(lines, Choice{Coll: c, Registered: way == Direct, Way: way, Blocks: blocks, Threads: 64, Tile: 1 << 10})
			}
		}
	}
	o.Choices = append(lines, o.Choices...)
	return o
}

// TestRelays mixes them with kernels that use the same tiles, flags and counters, with parts that are no whole tiles.
func TestRelays(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 8) {
		for _, registers := range []bool{false, true} {
			t.Run(fmt.Sprintf("ranks=%d/registered=%v", size, registers), func(t *testing.T) {
				t.Parallel()
				onSim(t, size, relayed(3), func(r *rank) error {
					if registers {
						if err := r.registerAll(); err != nil {
							return err
						}
					}
					for _, n := range []int{0, 1, 300, 1000, 7001} {
						if err := first(r.moves(n), r.lists(n%1500), r.broadcasts(n), r.moves(n)); err != nil {
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

// TestRelaysKeepNothing checks that the window of two tiles is what keeps a slot until it is used: with one block and many
// tiles every slot is filled again and again, by ranks that run at their own pace.
func TestRelaysKeepNothing(t *testing.T) {
	t.Parallel()
	onSim(t, 3, relayed(1), func(r *rank) error {
		for range 3 {
			if err := first(r.moves(20_000), r.broadcasts(20_000)); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestRelaysAmongOthers has every kernel that uses tile memory follow every other, under many seeds.
func TestRelaysAmongOthers(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 5, 8) {
		for i := range max(2, 10/size) {
			t.Run(fmt.Sprintf("ranks=%d/seed=%d", size, i), func(t *testing.T) {
				t.Parallel()
				onRanks(t, seeded(t, size, *seed*100+uint64(i)).Driver(), size, size, simHalf, relayed(2), func(r *rank) error {
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
			err = first(r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}), r.splits(n/8))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestRelaysWrap takes the largest tiles on the largest grid, where a block has room for the fewest, and fills each slot
// several times, with the other kernels' largest tiles between.
func TestRelaysWrap(t *testing.T) {
	t.Parallel()
	const n, half = 500_000, 7 << 20
	o := Options{Memory: 12 << 20}
	for c := plan.AllReduce; c <= plan.Scatter; c++ {
		for _, way := range []Way{Turns, Chain, Tiles} {
			if way.Serves(c) {
				o.Choices = append(o.Choices, Choice{Coll: c, Way: way, Blocks: maxBlocks, Threads: 64})
			}
		}
	}
	onRanks(t, simulated(t, 3).Driver(), 3, 3, half, o, func(r *rank) error {
		d, me := colligo.Int32, r.g.Rank()
		in, out := r.tensor(0, d, 0, n), r.tensor(1, d, 0, 3*n)
		own, root := values(d, colligo.KindSum, me, n), values(d, colligo.KindSum, 1, n)
		for range seeds(2) { // the second time from where the first has ended
			if err := first(r.try("broadcast", in, own, in, root, func() error { return r.g.Broadcast(r.ctx, in, 1) }),
				r.try("all_gather", in, own, out, all(d, 3, n), func() error { return r.g.AllGatherIntoTensor(r.ctx, out, in) }),
				r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n})); err != nil {
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

// TestRelaysStop leaves rank 1 out of a relay that the others have begun.
func TestRelaysStop(t *testing.T) {
	t.Parallel()
	for way, c := range map[Way]plan.Coll{Turns: plan.AllGather, Chain: plan.Broadcast, Rows: plan.Broadcast} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			o := relayed(2)
			if way == Rows {
				o = small(Rows)
			}
			o.Timeout = 3 * time.Second
			onRanks(t, stoppable(t, 3).Driver(), 3, 3, simHalf, o, func(r *rank) error { return r.leftOut(c) })
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
	if err := first(r.put(in, make([]byte, in.Size())), run()); err != nil {
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

// TestRelaysUnwatched replays a graph of relays and others again and again before any host looks, so that only what the
// kernels say orders them.
func TestRelaysUnwatched(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 5) {
		for i := range 3 {
			t.Run(fmt.Sprintf("ranks=%d/seed=%d", size, i), func(t *testing.T) {
				t.Parallel()
				sim := seeded(t, size, *seed*100+uint64(i), reduction{colligo.Float32, colligo.KindMax})
				o := relayed(2)
				for j := range o.Choices {
					o.Choices[j].Tile = []int{1 << 10, 4 << 10, 8 << 10}[i]
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
		return first(r.g.AllGatherIntoTensor(r.ctx, out, in), r.g.Broadcast(r.ctx, out.Slice(0, n), 0), r.g.AllReduce(r.ctx, out, colligo.Max),
			r.g.Broadcast(r.ctx, out.Slice(0, 2*n), size-1), r.g.AllReduce(r.ctx, part, colligo.Max),
			r.g.AllGatherIntoTensor(r.ctx, out, in), r.g.AllGatherIntoTensor(r.ctx, out, in))
	}
	if err := r.try("before capture", in, own, out, all(d, size, n), run); err != nil {
		return err
	}
	graph, err := r.captured(run)
	if err != nil {
		return err
	}
	if err := r.try("replays", in, own, out, all(d, size, n), func() error {
		return first(r.launch(graph), r.launch(graph), r.launch(graph))
	}); err != nil {
		return err
	}
	return r.giveBack(graph)
}

// TestRelayGrid checks that a relay's tiles fit into pieces, and that a block has room for some.
func TestRelayGrid(t *testing.T) {
	for size := 2; size <= maxRanks; size++ {
		l, err := newLayout(size, DefaultMemory)
		require.NoError(t, err)
		b := &backend{layout: l, size: size}
		for blocks := 1; blocks <= maxBlocks; blocks++ {
			g, tile, pieces := b.relayGrid(&Choice{Blocks: blocks, Threads: 32}, 1<<30)
			require.EqualValues(t, leastRelay, g.Threads)
			require.LessOrEqual(t, g.Blocks*pieces, uint32(2*maxBlocks))
			require.Zero(t, pieces%2+tile%16)
			inPiece := uint32(tileDepth*l.tileSlot) / tile
			require.GreaterOrEqual(t, inPiece*pieces, uint32(relayDepth), "%d ranks, %d blocks", size, blocks)
			require.Positive(t, inPiece)
		}
	}
}

// TestRelayGraph replays captured operations.
func TestRelayGraph(t *testing.T) {
	t.Parallel()
	onSim(t, 3, relayed(2), func(r *rank) error {
		const n = 3000
		me := r.g.Rank()
		in, out := r.tensor(0, colligo.Int32, 0, n), r.tensor(1, colligo.Int32, 0, 3*n)
		want := bytes.Repeat(values(colligo.Int32, colligo.KindSum, 1, n), 3)
		run := func() error { return first(r.g.Broadcast(r.ctx, in, 1), r.g.AllGatherIntoTensor(r.ctx, out, in)) }
		own := values(colligo.Int32, colligo.KindSum, me, n)
		return r.tryCaptured(3, in, own, out, want, run)
	})
}

func TestWaysServe(t *testing.T) {
	require.False(t, Turns.Serves(plan.Gather))
	require.False(t, Chain.Serves(plan.AllGather))
	require.True(t, Direct.Serves(plan.Broadcast))
}

// TestRelaysStopSilently stops rank 1 of a chain before its root has begun. Rank 2 must not take for tiles what never came.
func TestRelaysStopSilently(t *testing.T) {
	t.Parallel()
	for _, way := range []Way{Chain, Direct, Rows} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			stopped, looked := make(chan struct{}), make(chan struct{})
			o := relayed(2)
			if way == Rows {
				o = small(Rows)
			}
			onRanks(t, stoppable(t, 3).Driver(), 3, 3, simHalf, o, func(r *rank) error {
				x := r.tensor(0, colligo.Int32, 0, 5000)
				if way == Direct {
					if err := r.registerAll(); err != nil {
						return err
					}
				}
				if err := first(r.put(x, make([]byte, x.Size())), r.g.Broadcast(r.ctx, x, 0), r.synchronize()); err != nil {
					return err
				}
				if r.g.Rank() == 0 {
					<-looked
					r.g.Abort(errors.New("no more of this"))
					return nil
				}
				b, err := r.backend()
				if err := first(err, r.g.Broadcast(r.ctx, x, 0)); err != nil {
					return err
				}
				if r.g.Rank() == 1 {
					b.setStop()
					err = r.synchronize()
					close(stopped)
					return err
				}
				defer close(looked)
				<-stopped
				return r.busyFor(200 * time.Millisecond)
			})
		})
	}
}

// busyFor checks that the stream does not end in so much time.
func (r *rank) busyFor(d time.Duration) error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if done, err := t.StreamDone(r.stream); done || err != nil {
			return errors.Join(errors.New("the broadcast has ended, but nobody has begun it"), err)
		}
	}
	return nil
}
