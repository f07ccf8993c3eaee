package tree

import (
	"math/bits"
	"testing"

	"github.com/colligo-go/colligo/plan"
)

// cost is the most that any rank takes, in elements, and the rounds of all: what the planners' comments say.
type cost struct{ rounds, sent, received, scratch int }

// costs holds the comments' formulas for n ranks, S elements of the whole tensor in one chunk. In them l is lg n, and p the
// largest power of two not above n.
var costs = map[string]func(n, S, l, p int) cost{
	"BinomialBroadcast": func(n, S, l, p int) cost { return cost{l, S * l, S, 0} },
	"BinomialReduce":    func(n, S, l, p int) cost { return cost{l, S, S * l, S} },
	"BinomialGather":    func(n, S, l, p int) cost { return cost{l + 1, S / 2, S - S/n, S / 2} },
	"BinomialScatter":   func(n, S, l, p int) cost { return cost{l + 1, S - S/n, S / 2, S / 2} },

	"DoubleTreeAllReduce": func(n, S, l, p int) cost { return cost{4*l - 2, 2 * S, 2 * S, 0} },
	"DoubleTreeBroadcast": func(n, S, l, p int) cost { return cost{2*l - 1, S, S, 0} },
	"DoubleTreeReduce":    func(n, S, l, p int) cost { return cost{2*l - 1, S, S, S / 2} },

	"HalvingDoublingAllReduce": func(n, S, l, p int) cost {
		if n == p {
			return cost{2 * l, 2 * S / n * (n - 1), 2 * S / n * (n - 1), 0}
		}
		return cost{2*(l-1) + 3, 2*S/p*(p-1) + S*3/2, 2*S/p*(p-1) + S, 0}
	},
	"RecursiveDoublingAllReduce": func(n, S, l, p int) cost {
		if n == p {
			return cost{l, S * l, S * l, S}
		}
		return cost{l - 1 + 2, S * l, S * l, S}
	},
	"HalvingReduceScatter": func(n, S, l, p int) cost { return cost{l + one(n != p), S - S/n, S - S/n, S / n * ((n + 1) / 2)} },
	"DoublingAllGather": func(n, S, l, p int) cost {
		return cost{l + one(n != p)*(l-1), S - S/n, S - S/n, 0}
	},
	"CirculantAllReduce": func(n, S, l, p int) cost {
		return cost{2*l + one(n != p)*2*(l-1), 2 * (S - S/n), 2 * (S - S/n), 0}
	},
	"Dissemination": func(n, S, l, p int) cost { return cost{l, 0, 0, 0} },

	"DirectAllReduce":     func(n, S, l, p int) cost { return cost{n - 1, S * (n - 1), S * (n - 1), S * (n - 1)} },
	"DirectReduceScatter": func(n, S, l, p int) cost { return cost{n - 1, S - S/n, S - S/n, S / n * (n - 1)} },
	"DirectAllGather":     func(n, S, l, p int) cost { return cost{n - 1, S - S/n, S - S/n, 0} },
	"DirectBroadcast":     func(n, S, l, p int) cost { return cost{n - 1, S * (n - 1), S, 0} },
	"DirectReduce":        func(n, S, l, p int) cost { return cost{n - 1, S, S * (n - 1), S} },
	"DirectGather":        func(n, S, l, p int) cost { return cost{n - 1, S / n, S - S/n, 0} },
	"DirectScatter":       func(n, S, l, p int) cost { return cost{n - 1, S - S/n, S / n, 0} },
	"DirectBarrier":       func(n, S, l, p int) cost { return cost{n - 1, 0, 0, 0} },
}

// TestCosts compares the formulas with the plans: nothing costs more for any size, and each formula is met by some size.
func TestCosts(t *testing.T) {
	for _, p := range planners {
		var met [4]bool
		for n := 2; n <= 40; n++ {
			s, S := costShape(p.coll, n)
			got := measure(t, p.plan, s)
			power := 1 << (bits.Len(uint(n)) - 1)
			want := costs[p.name](n, S, bits.Len(uint(n-1)), power)
			w := [4]int{want.rounds, want.sent, want.received, want.scratch}
			for i, g := range [4]int{got.rounds, got.sent, got.received, got.scratch} {
				met[i] = met[i] || g == w[i]
				if g > w[i] || g < 0 {
					t.Fatalf("%s: %v: got %+v, want at most %+v", p.name, s, got, want)
				}
			}
		}
		if met != [4]bool{true, true, true, true} {
			t.Errorf("%s: rounds, sent, received, scratch: met by some size: %v", p.name, met)
		}
	}
}

// costShape returns a shape of n ranks whose parts and halves come out even, and the elements of the whole tensor.
func costShape(coll plan.Coll, n int) (s plan.Shape, whole int) {
	s = plan.Shape{Coll: coll, Size: n, Elem: 1}
	if coll.Rooted() {
		s.Root = n / 3
	}
	switch {
	case coll == plan.Barrier:
		return s, 0
	case parted(coll):
		s.Count = 6
		return s, 6 * n
	}
	s.Count = 2 * n << (bits.Len(uint(n)) - 1)
	return s, s.Count
}

// TestPipelines measures what each further chunk costs in rounds. It is as many as the most children of a rank, and one more
// where the result comes back.
func TestPipelines(t *testing.T) {
	for _, p := range []struct {
		plan  plan.Planner
		coll  plan.Coll
		chunk int // rounds of a chunk for 32 ranks
	}{
		{BinomialBroadcast, plan.Broadcast, 5}, {BinomialReduce, plan.Reduce, 5},
		{DoubleTreeBroadcast, plan.Broadcast, 2}, {DoubleTreeReduce, plan.Reduce, 2}, {DoubleTreeAllReduce, plan.AllReduce, 3},
	} {
		s := plan.Shape{Coll: p.coll, Size: 32, Count: 20, Elem: 1, Lanes: 2, Chunk: 1}
		ten := measure(t, p.plan, s).rounds
		s.Count = 40
		if twenty := measure(t, p.plan, s).rounds; twenty-ten != 10*p.chunk {
			t.Errorf("%v: %d rounds with 10 chunks, %d with 20, want %d more", s, ten, twenty, 10*p.chunk)
		}
	}
}

// TestDoubleTrees checks that no rank but the root has children in both trees.
func TestDoubleTrees(t *testing.T) {
	for n := 2; n <= 300; n++ {
		checkTree(t, false, n)
		checkTree(t, true, n)
		for rel := 1; rel < n; rel++ {
			if len(double(false, rel, n).children) > 0 && len(double(true, rel, n).children) > 0 {
				t.Fatalf("size %d: rank %d has children in both trees", n, rel)
			}
		}
	}
}

// checkTree checks that one of the two trees holds every rank, that children and parents agree, and that it is not deep.
func checkTree(t *testing.T, second bool, n int) {
	t.Helper()
	edges := 0
	for rel := range n {
		node := double(second, rel, n)
		edges += len(node.children)
		for _, c := range node.children {
			if child := double(second, c, n); child.parent != rel || child.depth != node.depth+1 {
				t.Fatalf("size %d, second %v: child %d of %d has %+v", n, second, c, rel, child)
			}
		}
		if node.depth > bits.Len(uint(n-1)) || len(node.children) > 2 {
			t.Fatalf("size %d, second %v, rank %d: %+v", n, second, rel, node)
		}
	}
	if edges != n-1 {
		t.Fatalf("size %d, second %v: %d edges", n, second, edges)
	}
}

// measure returns the most that any rank takes in a plan, and the rounds of all.
func measure(t *testing.T, planner plan.Planner, s plan.Shape) (most cost) {
	t.Helper()
	plans := plansOf(t, planner, s)
	for _, p := range plans {
		c := p.Cost()
		most = cost{0, max(most.sent, c.Sent), max(most.received, c.Received), max(most.scratch, c.Scratch)}
	}
	most.rounds = plan.Rounds(plans)
	return most
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
