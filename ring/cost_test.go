package ring

import (
	"testing"

	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/plan/plantest"
)

// want is what a planner's comment states, for one rank and for the whole.
type want struct {
	steps, rounds  int
	sent, received int
	scratch        int
}

// TestCosts compares what the comments of the planners state with their plans: n ranks, S elements of the whole tensor,
// chunks of C. Counts divide evenly, so that each rank has what the busiest one has.
func TestCosts(t *testing.T) {
	for _, n := range []int{2, 3, 4, 7, 8} {
		for _, perRank := range []int{4, 12, 40} {
			const C = 4
			k, S := perRank/C, n*perRank // chunks of a part, elements in all
			moved := (n - 1) * S / n
			compareAll(t, plan.Shape{Coll: plan.AllReduce, Size: n, Count: S, Chunk: C}, want{2 * (n - 1) * k, 2 * (n - 1) * k, 2 * moved, 2 * moved, 0})
			s := plan.Shape{Size: n, Count: perRank, Chunk: C}
			s.Coll = plan.ReduceScatter
			compareAll(t, s, want{(n - 1) * k, (n - 1) * k, moved, moved, min(n-2, 2) * C})
			s.Coll = plan.AllGather
			compareAll(t, s, want{n * k, (n - 1) * k, moved, moved, 0})
			s.Coll = plan.AllToAll
			compareAll(t, s, want{1 + (n-1)*k, (n - 1) * k, moved, moved, 0})
		}
	}
}

func compareAll(t *testing.T, s plan.Shape, w want) {
	t.Helper()
	for _, p := range compareRounds(t, s, w.rounds) {
		compareCost(t, p, w)
	}
}

// TestChainCosts does so for the chains: S elements in T = ⌈S/C⌉ chunks.
func TestChainCosts(t *testing.T) {
	for _, n := range []int{2, 3, 5, 8} {
		for _, S := range []int{3, 4, 21} {
			const C, root = 4, 1
			k := (S + C - 1) / C
			first, last := want{steps: k, sent: S}, want{steps: k, received: S}
			middle := want{steps: k + 1, sent: S, received: S}
			plans := compareRounds(t, plan.Shape{Coll: plan.Broadcast, Size: n, Root: root, Count: S, Chunk: C}, k+n-2)
			for d := range n {
				compareCost(t, plans[(root+d)%n], pick(d, n, first, middle, last))
			}
			middle.scratch = min(k, 2) * ((S + k - 1) / k)
			plans = compareRounds(t, plan.Shape{Coll: plan.Reduce, Size: n, Root: root, Count: S, Chunk: C}, k+n-2)
			for d := range n {
				compareCost(t, plans[(root+d)%n], pick(d, n, last, middle, first))
			}
		}
	}
}

func pick(d, n int, root, middle, end want) want {
	switch d {
	case 0:
		return root
	case n - 1:
		return end
	}
	return middle
}

func compareRounds(t *testing.T, s plan.Shape, rounds int) []*plan.Plan {
	t.Helper()
	s.Elem = 4
	plans, err := plantest.Plans(planners[s.Coll], s)
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Rounds(plans); got != rounds {
		t.Errorf("%v takes %d rounds, want %d", s, got, rounds)
	}
	return plans
}

func compareCost(t *testing.T, p *plan.Plan, w want) {
	t.Helper()
	c := p.Cost()
	if got := (want{c.Steps, w.rounds, c.Sent, c.Received, c.Scratch}); got != w {
		t.Errorf("%v costs %+v, want %+v", p.Shape, got, w)
	}
}

// TestDefaultChunk: without a chunk in the shape, no step moves more than 128 KiB.
func TestDefaultChunk(t *testing.T) {
	for c, p := range planners {
		plans, err := plantest.Plans(p, plan.Shape{Coll: c, Size: 4, Count: 1 << 20, Elem: 4})
		if err != nil {
			t.Fatal(err)
		}
		longest := 0
		for _, s := range plans[1].Lanes[0] {
			if !s.Local(1) {
				longest = max(longest, s.Src.Len, s.Dst.Len)
			}
		}
		if longest != 128<<10/4 {
			t.Errorf("%v moves %d elements in a step, want %d", c, longest, 128<<10/4)
		}
	}
}
