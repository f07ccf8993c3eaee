package tree

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/plan/plantest"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the shapes that are drawn")

// planners are all of this package. Planners with quadratic plans are proved with fewer counts, and at the largest sizes
// only without -short.
var planners = []struct {
	name      string
	coll      plan.Coll
	plan      plan.Planner
	quadratic bool
}{
	{"BinomialBroadcast", plan.Broadcast, BinomialBroadcast, false},
	{"BinomialReduce", plan.Reduce, BinomialReduce, false},
	{"BinomialGather", plan.Gather, BinomialGather, false},
	{"BinomialScatter", plan.Scatter, BinomialScatter, false},
	{"DoubleTreeAllReduce", plan.AllReduce, DoubleTreeAllReduce, false},
	{"DoubleTreeBroadcast", plan.Broadcast, DoubleTreeBroadcast, false},
	{"DoubleTreeReduce", plan.Reduce, DoubleTreeReduce, false},
	{"HalvingDoublingAllReduce", plan.AllReduce, HalvingDoublingAllReduce, false},
	{"RecursiveDoublingAllReduce", plan.AllReduce, RecursiveDoublingAllReduce, false},
	{"HalvingReduceScatter", plan.ReduceScatter, HalvingReduceScatter, false},
	{"DoublingAllGather", plan.AllGather, DoublingAllGather, false},
	{"CirculantAllReduce", plan.AllReduce, CirculantAllReduce, false},
	{"Dissemination", plan.Barrier, Dissemination, false},
	{"DirectAllReduce", plan.AllReduce, DirectAllReduce, true},
	{"DirectReduceScatter", plan.ReduceScatter, DirectReduceScatter, true},
	{"DirectAllGather", plan.AllGather, DirectAllGather, true},
	{"DirectBroadcast", plan.Broadcast, DirectBroadcast, false},
	{"DirectReduce", plan.Reduce, DirectReduce, false},
	{"DirectGather", plan.Gather, DirectGather, false},
	{"DirectScatter", plan.Scatter, DirectScatter, false},
	{"DirectBarrier", plan.Barrier, DirectBarrier, true},
}

// shapes returns the small shapes of a collective. They have all sizes up to 33, with counts of 0, 1, primes and around the
// size. Sizes up to 5 have all roots; lanes and chunks vary. Beyond size 6 one of so many is drawn.
func shapes(coll plan.Coll, every int, rng *rand.Rand) (all []plan.Shape) {
	for n := 1; n <= 33; n++ {
		for _, count := range []int{0, 1, 2, 3, n - 1, n, n + 1, 97, 1009} {
			all = append(all, plan.Shape{Coll: coll, Size: n, Count: count, Elem: 4})
		}
	}
	vary := func(by func(s plan.Shape) []plan.Shape) {
		var varied []plan.Shape
		for _, s := range all {
			varied = append(varied, by(s)...)
		}
		all = varied
	}
	vary(func(s plan.Shape) (varied []plan.Shape) {
		for _, lanes := range []int{0, 1, 2, 3, 8} {
			s.Lanes = lanes
			s.Chunk = 0
			varied = append(varied, s)
			s.Chunk = 1 + s.Count/11
			varied = append(varied, s)
		}
		return varied
	})
	vary(func(s plan.Shape) (varied []plan.Shape) {
		for _, s.Root = range roots(s, rng) {
			if s.Size <= 6 || rng.IntN(every) == 0 {
				varied = append(varied, s)
			}
		}
		return varied
	})
	return all
}

// roots returns all roots of small sizes and some of others, 0 if there is none.
func roots(s plan.Shape, rng *rand.Rand) []int {
	switch n := s.Size; {
	case !s.Coll.Rooted():
		return []int{0}
	case n <= 5:
		return rng.Perm(n)
	default:
		return []int{0, 1, rng.IntN(n), n - 1}
	}
}

func TestSmallSizes(t *testing.T) {
	for _, p := range planners {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			every := 16
			if p.quadratic {
				every = 64
			}
			for _, s := range shapes(p.coll, every, seeded(t)) {
				prove(t, p.plan, s)
			}
		})
	}
}

// TestUneven proves the planners of collectives in parts with parts of 0 up to 9 elements, half of them empty in every
// third shape.
func TestUneven(t *testing.T) {
	for _, p := range planners {
		if !parted(p.coll) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			rng := seeded(t)
			for i := range 12 * 33 {
				prove(t, p.plan, uneven(p.coll, 1+i%33, i%3 == 0, rng))
			}
		})
	}
}

func uneven(coll plan.Coll, n int, empty bool, rng *rand.Rand) plan.Shape {
	s := plan.Shape{Coll: coll, Size: n, Elem: 4, Lanes: rng.IntN(3), Chunk: rng.IntN(5), Counts: make([]int, n)}
	if coll.Rooted() {
		s.Root = rng.IntN(n)
	}
	for r := range s.Counts {
		s.Counts[r] = rng.IntN(10)
		if empty {
			s.Counts[r] *= rng.IntN(2)
		}
	}
	return s
}

func TestLargeSizes(t *testing.T) {
	for _, p := range planners {
		sizes := []int{64, 100, 257, 1024}
		if p.quadratic && testing.Short() {
			sizes = sizes[:2]
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			rng := seeded(t)
			for _, n := range sizes {
				s := plan.Shape{Coll: p.coll, Size: n, Elem: 4, Lanes: 2, Count: 3}
				if p.coll.Rooted() {
					s.Root = rng.IntN(n)
				}
				prove(t, p.plan, s)
				if s.Count = n + 1; !parted(p.coll) {
					prove(t, p.plan, s)
				}
			}
		})
	}
}

// TestRun runs drawn shapes on numbers, without what Check believes.
func TestRun(t *testing.T) {
	for _, p := range planners {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			rng := seeded(t)
			for range 20 {
				s := plan.Shape{Coll: p.coll, Size: 1 + rng.IntN(20), Elem: 8, Count: rng.IntN(60), Lanes: rng.IntN(5), Chunk: rng.IntN(9)}
				if p.coll.Rooted() {
					s.Root = rng.IntN(s.Size)
				}
				plans := plansOf(t, p.plan, s)
				if err := plantest.Run(plans, rng.IntN(2) == 0, rng.Uint64()); err != nil {
					t.Fatalf("%v: %v", s, err)
				}
			}
		})
	}
}

// TestSameOperands reduces with an operation that tells its operands apart, as a sum of NaNs does: all ranks have one result.
func TestSameOperands(t *testing.T) {
	for _, p := range planners {
		if p.coll != plan.AllReduce {
			continue
		}
		for n := 2; n <= 9; n++ {
			plans := plansOf(t, p.plan, plan.Shape{Coll: p.coll, Size: n, Elem: 4, Count: 13, Chunk: 3})
			_, out, err := plantest.Outputs(plans, 1, func(a, b uint64) uint64 { return 3*a + b })
			if err != nil {
				t.Fatal(err)
			}
			for r := range out {
				if !slices.Equal(out[r], out[0]) {
					t.Fatalf("%s: rank %d of %d has another result than rank 0", p.name, r, n)
				}
			}
		}
	}
}

// TestMisuse gives every planner a shape of another collective, and one that is not valid.
func TestMisuse(t *testing.T) {
	for _, p := range planners {
		other := plan.Shape{Coll: plan.AllToAll, Size: 4, Elem: 4}
		if _, err := p.plan(other); err == nil {
			t.Errorf("%s plans %v", p.name, other)
		}
		bad := plan.Shape{Coll: p.coll, Size: 4, Rank: 4, Elem: 4}
		if _, err := p.plan(bad); err == nil {
			t.Errorf("%s plans %v", p.name, bad)
		}
	}
}

// seeded returns a source of the test's seed, which it logs.
func seeded(t *testing.T) *rand.Rand {
	t.Logf("-seed %d", *seed)
	return rand.New(rand.NewPCG(*seed, 0))
}

func parted(c plan.Coll) bool {
	return c == plan.AllGather || c == plan.ReduceScatter || c == plan.Gather || c == plan.Scatter
}

func plansOf(t *testing.T, planner plan.Planner, s plan.Shape) []*plan.Plan {
	t.Helper()
	plans, err := plantest.Plans(planner, s)
	if err != nil {
		t.Fatal(fmt.Errorf("%v: %w", s, err))
	}
	return plans
}

// prove checks the plans of all ranks, apart and in place, and that no step is longer than a chunk or empty.
func prove(t *testing.T, planner plan.Planner, s plan.Shape) {
	t.Helper()
	plans := plansOf(t, planner, s)
	if err := plantest.Prove(plans); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	for _, p := range plans {
		for _, steps := range p.Lanes {
			checkPieces(t, p, steps)
		}
	}
}

func checkPieces(t *testing.T, p *plan.Plan, steps []plan.Step) {
	t.Helper()
	for i, q := range steps {
		longest := max(q.Src.Len, q.Dst.Len)
		if q.Local(p.Shape.Rank) || p.Shape.Coll == plan.Barrier || 0 < longest && longest <= p.Shape.ChunkLen(frameBytes) {
			continue
		}
		t.Fatalf("%v: step %d sends %v and receives %v", p.Shape, i, q.Src, q.Dst)
	}
}
