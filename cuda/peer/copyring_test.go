package peer

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
)

// TestCopyRingMoves takes the rings that only move, with parts of any length and many slices for each slot.
func TestCopyRingMoves(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 5, 8) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			o := small(CopyRing)
			if size == 3 {
				for i := range o.Rules {
					o.Rules[i].Tile = ringUnit // more slices than lanes
				}
			}
			onSim(t, size, o, func(r *rank) error {
				for _, n := range []int{0, 1, 2047, 2048, 2049, 5000, 30_000} {
					if err := first(r.moves(n),
						func() error { return r.lists(n) },
						func() error { return r.gathersInPlace(n) },
						func() error { return r.gathersOne(n) }); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// gathersInPlace checks all_gather of what lies in the output.
func (r *rank) gathersInPlace(n int) error {
	d, size, me := colligo.Int32, r.g.Size(), r.g.Rank()
	part := n * d.Size()
	whole, own := make([]byte, size*part), make([]byte, size*part)
	for q := range size {
		copyData(whole[q*part:], values(d, colligo.KindSum, q, n))
	}
	copyData(own[me*part:], whole[me*part:][:part])
	out := r.tensor(1, d, 0, n*size)
	return r.try("all_gather in place", out, own, out, whole, func() error {
		return r.g.AllGatherIntoTensor(r.ctx, out, out.Slice(me*n, me*n+n))
	})
}

// gathersOne checks all_gather where all but the last rank have nothing, also from a graph.
func (r *rank) gathersOne(n int) error {
	d, last := colligo.Int32, r.g.Size()-1
	out, outs := r.tensor(1, d, 0, n), make([]colligo.Tensor, last+1)
	for q := range last {
		outs[q] = out.Slice(0, 0)
	}
	outs[last] = out
	in, own, want := r.tensor(0, d, 0, 0), []byte{}, values(d, colligo.KindSum, last, n)
	if r.g.Rank() == last {
		in, own = r.tensor(0, d, 0, n), want
	}
	run := func() error { return r.g.AllGather(r.ctx, outs, in) }
	return r.tryCaptured(2, in, own, out, want, run)
}

// allAlgorithms makes little symmetric heaps and takes every algorithm, one after the other, by the length of the tensor.
func allAlgorithms() Options {
	line := func(c plan.Coll, w Algorithm, most, tile int) Rule {
		return Rule{Coll: c, Algorithm: w, MaxBytes: most, Blocks: 3, Threads: 64, Tile: tile, Registered: w == Direct || w == CopyDirect}
	}
	o := Options{Memory: 24 << 20, Rules: []Rule{
		line(plan.AllReduce, LL, 4<<10, 0), line(plan.AllReduce, LL128, 16<<10, 0), line(plan.AllReduce, LL128TwoShot, 32<<10, 0),
		line(plan.AllReduce, Sentinel, 48<<10, 0), line(plan.AllReduce, Direct, 200<<10, 1<<10), line(plan.AllReduce, CopyDirect, 0, 64<<10),
		line(plan.AllReduce, Tiles, 100<<10, 1<<10), line(plan.AllReduce, Fused, 300<<10, 64<<10), line(plan.AllReduce, CopyRing, 0, 64<<10),
		line(plan.Broadcast, Direct, 8<<10, 1<<10), line(plan.Broadcast, LL, 2<<10, 0),
		line(plan.Broadcast, LL128, 12<<10, 0), line(plan.Broadcast, Sentinel, 24<<10, 0), line(plan.Broadcast, Fused, 80<<10, 20<<10), line(plan.Broadcast, Chain, 0, 1<<10),
	}}
	for _, c := range []plan.Coll{plan.AllGather, plan.AllToAll} {
		o.Rules = append(o.Rules, line(c, LL, 2<<10, 0), line(c, Direct, 4<<10, 0), line(c, Rotation, 20<<10, 1<<10),
			line(c, CopyDirect, 40<<10, 0))
		if c == plan.AllGather {
			o.Rules = append(o.Rules, line(c, Fused, 60<<10, 8<<10))
		}
		o.Rules = append(o.Rules, line(c, CopyRing, 0, 32<<10))
	}
	return o
}

// TestCopyRingAmongOthers mixes rings with all that uses the symmetric heap besides, in an order of its own for each seed.
func TestCopyRingAmongOthers(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4) {
		for i := range seeds(6) {
			t.Run(fmt.Sprintf("ranks=%d/seed=%d", size, *seed+i), func(t *testing.T) {
				t.Parallel()
				sim := kerneled(t, cudasim.Config{Devices: size, Seed: *seed + i})
				t.Cleanup(func() { cudasim.Check(t, sim) })
				onRanks(t, sim.Driver(), size, size, simHalf, allAlgorithms(), func(r *rank) error { return r.mixed(*seed + i) })
			})
		}
	}
}

// mixed calls in an order that a seed picks, equal on all ranks, on registered tensors, and some that the contract leaves out.
func (r *rank) mixed(seed uint64) error {
	if err := r.registerAll(); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for range 25 {
		n := []int{100, 2000, 6000, 20_000, 40_000, 90_000}[random.IntN(6)] + random.IntN(5)
		var err error
		switch random.IntN(4) {
		case 0:
			err = r.moves(n / (2 * r.g.Size()))
		case 1:
			err = r.lists(n / (4 * r.g.Size()))
		default:
			c := trial{dtype: colligo.Float32, op: colligo.Sum, count: n, shift: random.IntN(3) * 2, async: random.IntN(2) == 0}
			err = r.allReduce(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestCopyRingGraphs replays captured rings, with one that is not captured in between.
func TestCopyRingGraphs(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			onSim(t, size, small(CopyRing), func(r *rank) error { return r.turned(10_000) })
		})
	}
}

// turned checks what comes of parts of n elements that all gather and then give to one another, alone and from a graph.
func (r *rank) turned(n int) error {
	size, me := r.g.Size(), r.g.Rank()
	in, all, out := r.tensor(0, colligo.Int32, 0, n), r.tensor(0, colligo.Int32, n+2*margin, size*n), r.tensor(1, colligo.Int32, 0, size*n)
	own := values(colligo.Int32, colligo.KindSum, me, n)
	want := bytes.Repeat(own, size)
	run := func() error {
		return first(r.g.AllGatherIntoTensor(r.ctx, all, in), func() error { return r.g.AllToAllSingle(r.ctx, out, all, nil, nil) })
	}
	return first(r.tryCaptured(3, in, own, out, want, run), func() error { return r.try("after the replays", in, own, out, want, run) })
}

// TestCopyDirect takes copies into registered outputs, and from graphs.
func TestCopyDirect(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 5) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			o := Options{Memory: 24 << 20, Rules: []Rule{{Coll: plan.AllGather, Registered: true, Algorithm: CopyDirect, Blocks: 3, Threads: 64},
				{Coll: plan.AllToAll, Registered: true, Algorithm: CopyDirect, Blocks: 3, Threads: 64}}}
			onSim(t, size, o, func(r *rank) error {
				if err := r.registerAll(); err != nil {
					return err
				}
				for _, n := range []int{0, 1, 2047, 2048, 2052, 30_000, 5000} {
					if err := first(r.moves(n),
						func() error { return r.lists(n) },
						func() error { return r.gathersInPlace(n) },
						func() error { return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}) }); err != nil {
						return err
					}
				}
				return r.turned(10_000)
			})
		})
	}
}

// TestCopyRingOrder checks the plans of rings: a slice never depends on what came just before it goes. One slice at least is on
// its way meanwhile, so that the fold takes no time of the engine.
func TestCopyRingOrder(t *testing.T) {
	t.Parallel()
	for size := 2; size <= symheap.MaxRanks; size++ {
		for _, mib := range []int{128, 256, 1024, 3000} {
			l, err := symheap.NewLayout(size, DefaultMemory)
			require.NoError(t, err)
			b := &launcher{size: size, layout: &l, rank: size / 2}
			s := b.ringShape(plan.AllReduce, mib<<20/size, &Rule{})
			s.Count *= size
			p, err := ring.AllReduce(s)
			require.NoError(t, err)
			checkOrder(t, p, l.RingSlot)
			s.Coll, s.Count = plan.ReduceScatter, s.Count/size
			p, err = ring.ReduceScatter(s)
			require.NoError(t, err)
			sumInOutput(p)
			checkOrder(t, p, l.RingSlot)
			s.Coll = plan.AllGather
			p, err = ring.AllGather(s)
			require.NoError(t, err)
			sendInput(p)
			checkOrder(t, p, l.RingSlot)
		}
	}
}

func checkOrder(t *testing.T, p *plan.Plan, slot int) {
	t.Helper()
	came, sent, received := map[plan.Span]int{}, 0, 0
	for _, st := range interleaved(p) {
		require.LessOrEqual(t, max(st.Src.Len, st.Dst.Len)*ringUnit, slot)
		if st.To != plan.None && st.Src.Buf == plan.Out {
			at, ok := came[st.Src]
			require.True(t, ok, "%v: %v is sent before it has come", p.Shape, st.Src)
			require.GreaterOrEqual(t, sent-at, 2, "%v: slice %d is sent just after it has come", p.Shape, sent)
		}
		if st.To != plan.None {
			sent++
		}
		if st.From != plan.None {
			came[st.Dst] = received
			received++
		}
	}
	require.Equal(t, sent, received)
}

// TestCopyRingEnds has a rank give up while rings are on the devices. All hear of it, and nothing waits any more.
func TestCopyRingEnds(t *testing.T) {
	t.Parallel()
	gone := errors.New("no more of this")
	for i := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", *seed+i), func(t *testing.T) {
			t.Parallel()
			sim := kerneled(t, cudasim.Config{Devices: 3, Seed: *seed + i})
			t.Cleanup(func() {
				sim.Drain()
				require.Empty(t, sim.Leaks())
				sim.Close()
			})
			onRanks(t, sim.Driver(), 3, 3, simHalf, small(CopyRing), func(r *rank) error {
				x, out := r.tensor(0, colligo.Float32, 0, 50_000), r.tensor(1, colligo.Float32, 0, 150_000)
				if err := first(r.put(x, make([]byte, x.Size())),
					func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) }); err != nil {
					return err
				}
				for i := 0; ; i++ {
					if r.g.Rank() == 1 && i == 3 {
						r.g.Abort(gone)
					}
					err := r.g.AllGatherIntoTensorAsync(r.ctx, out, x).Synchronize(r.ctx)
					if err != nil {
						return contains(r.g.Err(), gone.Error())
					}
				}
			})
		})
	}
}
