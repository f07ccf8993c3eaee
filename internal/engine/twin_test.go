package engine_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/plan/plantest"
	"github.com/colligo-go/colligo/ring"
	"github.com/colligo-go/colligo/tree"
)

var planners = []struct {
	name    string
	coll    plan.Coll
	planner plan.Planner
}{
	{"ring", plan.AllReduce, ring.AllReduce}, {"direct", plan.AllReduce, tree.DirectAllReduce},
	{"halving_doubling", plan.AllReduce, tree.HalvingDoublingAllReduce}, {"circulant", plan.AllReduce, tree.CirculantAllReduce},
	{"double_tree", plan.AllReduce, tree.DoubleTreeAllReduce}, {"recursive_doubling", plan.AllReduce, tree.RecursiveDoublingAllReduce},
	{"chain", plan.Broadcast, ring.Broadcast}, {"binomial", plan.Broadcast, tree.BinomialBroadcast},
	{"double_tree", plan.Broadcast, tree.DoubleTreeBroadcast},
	{"chain", plan.Reduce, ring.Reduce}, {"binomial", plan.Reduce, tree.BinomialReduce}, {"double_tree", plan.Reduce, tree.DoubleTreeReduce},
	{"ring", plan.AllGather, ring.AllGather}, {"direct", plan.AllGather, tree.DirectAllGather}, {"doubling", plan.AllGather, tree.DoublingAllGather},
	{"ring", plan.ReduceScatter, ring.ReduceScatter}, {"halving", plan.ReduceScatter, tree.HalvingReduceScatter},
	{"rotation", plan.AllToAll, ring.AllToAll}, {"binomial", plan.Gather, tree.BinomialGather},
	{"binomial", plan.Scatter, tree.BinomialScatter}, {"dissemination", plan.Barrier, tree.Dissemination},
	{"direct", plan.Barrier, tree.DirectBarrier}, {"direct", plan.ReduceScatter, tree.DirectReduceScatter},
}

// mixer is a kernel on 64-bit words: an operation that shows every change of order, and a mark for finished elements.
type mixer struct{ mark uint64 }

func mixed(a, b uint64) uint64 { return (a+b)*0xbf58476d1ce4e5b9 ^ a ^ b }

func (mixer) Reduce(dst, a, b []byte) {
	for i := 0; i < len(dst); i += 8 {
		binary.NativeEndian.PutUint64(dst[i:], mixed(binary.NativeEndian.Uint64(a[i:]), binary.NativeEndian.Uint64(b[i:])))
	}
}

func (m mixer) Finish(dst, src []byte, ranks int) {
	for i := 0; i < len(dst); i += 8 {
		binary.NativeEndian.PutUint64(dst[i:], binary.NativeEndian.Uint64(src[i:])+m.mark*uint64(ranks))
	}
}

func (mixer) Scale(dst, src []byte, factor float64) {
	for i := 0; i < len(dst); i += 8 {
		binary.NativeEndian.PutUint64(dst[i:], binary.NativeEndian.Uint64(src[i:])*uint64(factor))
	}
}

func bytesOf(x []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 8*len(x))
}

// shape draws one that a planner takes.
func shape(rng *rand.Rand, coll plan.Coll) plan.Shape {
	s := plan.Shape{Coll: coll, Size: 1 + rng.IntN(9), Count: rng.IntN(200), Elem: 8, Lanes: rng.IntN(3)}
	if coll.Rooted() {
		s.Root = rng.IntN(s.Size)
	}
	if rng.IntN(2) == 0 {
		s.Chunk = 1 + rng.IntN(40)
	}
	if coll == plan.Barrier {
		s.Count = 0
	}
	return s
}

// draw returns the plans of a shape, even or not.
func draw(t *testing.T, rng *rand.Rand, planner plan.Planner, s plan.Shape) []*plan.Plan {
	uneven := rng.IntN(2) == 0
	counts := make([][]int, s.Size)
	for r := range counts {
		counts[r] = make([]int, s.Size)
		for p := range counts[r] {
			counts[r][p] = max(rng.IntN(60)-20, 0)
		}
	}
	var plans []*plan.Plan
	var err error
	switch {
	case uneven && s.Coll == plan.AllToAll:
		plans, err = plantest.PlansAllToAll(planner, s, counts)
	case uneven && (s.Coll == plan.AllGather || s.Coll == plan.ReduceScatter || s.Coll == plan.Gather || s.Coll == plan.Scatter):
		s.Counts = counts[0]
		fallthrough
	default:
		plans, err = plantest.Plans(planner, s)
	}
	require.NoError(t, err)
	return plans
}

// twin draws a planner, a shape and a network, and compares the engine with the interpreter of package plantest.
func twin(t *testing.T, seed uint64, inPlace bool) {
	rng := rand.New(rand.NewPCG(seed, 7))
	p := planners[rng.IntN(len(planners))]
	plans := draw(t, rng, p.planner, shape(rng, p.coll))
	say := fmt.Sprintf("seed %d: %v", seed, plans[0].Shape)
	in, want, err := plantest.Outputs(plans, seed, mixed)
	require.NoError(t, err, say)
	mark := rng.Uint64()
	out := execute(t, plans, newWire(rng), in, inPlace, mixer{mark}, nil)
	for r := range plans {
		if p.coll.Reduces() && len(plans) > 1 {
			for i := range want[r] {
				want[r][i] += mark * uint64(len(plans))
			}
		}
		require.Equal(t, append([]uint64{}, want[r]...), append([]uint64{}, out[r]...), "%s, rank %d", say, r)
	}
}

// weighed compares runs whose input is scaled on the way with runs that get it scaled, each rank's by another factor.
func weighed(t *testing.T, seed uint64, inPlace bool) {
	rng := rand.New(rand.NewPCG(seed, 8))
	p := planners[rng.IntN(len(planners))]
	if !p.coll.Reduces() {
		return
	}
	s := shape(rng, p.coll)
	s.Count *= 1 + 20*rng.IntN(2)*rng.IntN(2) // more than a block
	plans := draw(t, rng, p.planner, s)
	say := fmt.Sprintf("seed %d: %v by %s", seed, plans[0].Shape, p.name)
	in, _, err := plantest.Outputs(plans, seed, mixed)
	require.NoError(t, err, say)
	factors, scaled, again := make([]float64, len(plans)), make([][]uint64, len(plans)), false
	for r := range plans {
		factors[r] = float64(3 + 2*r)
		for _, v := range in[r] {
			scaled[r] = append(scaled[r], v*uint64(factors[r]))
		}
		again = again || plans[r].ReadsAgain()
	}
	require.Equal(t, (p.name == "direct" && p.coll == plan.AllReduce || p.name == "recursive_doubling") && s.Size > 1 && s.Count > 0, again, say)
	if again {
		return
	}
	want := execute(t, plans, newWire(rng), scaled, inPlace, mixer{5}, nil)
	require.Equal(t, want, execute(t, plans, newWire(rng), in, inPlace, mixer{5}, factors), say)
}

func TestWeighed(t *testing.T) {
	for seed := range uint64(twins / 8) {
		weighed(t, seed, seed%2 == 1)
	}
}

// execute runs all ranks' plans and returns the outputs. The runs weigh the ranks' input by factors, if there are any.
func execute(t *testing.T, plans []*plan.Plan, w *wire, in [][]uint64, inPlace bool, k engine.Kernel, factors []float64) [][]uint64 {
	out := make([][]uint64, len(plans))
	runs := make([]engine.Run, len(plans))
	for r, p := range plans {
		from := append([]uint64(nil), in[r]...)
		out[r] = make([]uint64, p.Shape.Len(plan.Out))
		if inPlace {
			from, out[r] = alias(p.Shape, from, out[r])
		}
		// Buffers may be longer than the plan needs.
		scratch := make([]uint64, p.Scratch+w.rng.IntN(2))
		runs[r].Start(p, end{w, r}, k, bytesOf(from), bytesOf(out[r]), bytesOf(scratch))
		if factors != nil {
			runs[r].Weigh(factors[r])
		}
	}
	for idle := 0; idle < 10_000; idle++ {
		left := 0
		for _, r := range w.rng.Perm(len(runs)) {
			moved, err := runs[r].Advance()
			require.NoError(t, err)
			if moved {
				idle = 0
			}
			if !runs[r].Done() {
				left++
			}
		}
		if left == 0 {
			for key, q := range w.queues {
				require.Empty(t, q.frames, "frames left %v", key)
			}
			return out
		}
	}
	t.Fatal("nothing moves any more")
	return nil
}

// alias puts input and output into the same memory where callers may.
func alias(s plan.Shape, in, out []uint64) ([]uint64, []uint64) {
	if s.Coll.Rooted() && s.Rank != s.Root {
		return in, out
	}
	switch s.Coll {
	case plan.AllReduce, plan.Reduce:
		return in, in
	case plan.AllGather, plan.Gather:
		own := out[s.PartOff(s.Rank):][:len(in)]
		copy(own, in)
		return own, out
	case plan.ReduceScatter, plan.Scatter:
		return in, in[s.PartOff(s.Rank):][:len(out)]
	}
	return in, out
}

func TestTwin(t *testing.T) {
	for seed := range uint64(twins) {
		twin(t, seed, seed%2 == 1)
	}
}

func FuzzTwin(f *testing.F) {
	f.Add(uint64(1), true)
	f.Fuzz(twin)
}

// TestEveryPlanner makes sure that each planner meets a network of frames smaller than its chunks.
func TestEveryPlanner(t *testing.T) {
	for _, p := range planners {
		t.Run(fmt.Sprintf("coll=%v/algo=%s", p.coll, p.name), func(t *testing.T) {
			s := plan.Shape{Coll: p.coll, Size: 6, Count: 5000, Elem: 8, Lanes: 2}
			if p.coll == plan.Barrier {
				s.Count = 0
			}
			plans, err := plantest.Plans(p.planner, s)
			require.NoError(t, err)
			in, want, err := plantest.Outputs(plans, 3, mixed)
			require.NoError(t, err)
			w := newWire(rand.New(rand.NewPCG(3, 3)))
			require.Equal(t, want, execute(t, plans, w, in, false, mixer{}, nil))
			require.Greater(t, w.frames, 0)
		})
	}
}
