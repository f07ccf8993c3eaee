package peer

import (
	"bytes"
	"fmt"
	"testing"

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
	_, err := Register(r.ctx, r.g, colligo.OnDevice(r.device.Place(), uintptr(r.arena), 2*r.half, colligo.Uint8))
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

// TestRelayGraph replays captured operations.
func TestRelayGraph(t *testing.T) {
	t.Parallel()
	onSim(t, 3, relayed(2), func(r *rank) error {
		const n = 3000
		me := r.g.Rank()
		in, out := r.tensor(0, colligo.Int32, 0, n), r.tensor(1, colligo.Int32, 0, 3*n)
		want := bytes.Repeat(values(colligo.Int32, colligo.KindSum, 1, n), 3)
		run := func() error { return first(r.g.Broadcast(r.ctx, in, 1), r.g.AllGatherInto(r.ctx, out, in)) }
		own := values(colligo.Int32, colligo.KindSum, me, n)
		if err := r.try("before capture", in, own, out, want, run); err != nil {
			return err
		}
		graph, err := r.captured(run)
		if err != nil {
			return err
		}
		return r.replay(3, graph, in, own, out, want)
	})
}

func TestWaysServe(t *testing.T) {
	require.False(t, Turns.Serves(plan.Gather))
	require.False(t, Chain.Serves(plan.AllGather))
	require.True(t, Direct.Serves(plan.Broadcast))
}
