package gloo

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/plan/plantest"
)

var planners = map[string]struct {
	coll plan.Coll
	plan plan.Planner
}{
	"all_reduce": {plan.AllReduce, AllReduce}, "reduce": {plan.Reduce, Reduce}, "reduce_scatter": {plan.ReduceScatter, ReduceScatter},
	"reduce_scatter list": {plan.ReduceScatter, ReduceScatterList}, "all_gather": {plan.AllGather, AllGather},
	"all_gather v": {plan.AllGather, AllGatherV}, "broadcast": {plan.Broadcast, Broadcast}, "barrier": {plan.Barrier, Barrier},
	"gather": {plan.Gather, Gather}, "scatter": {plan.Scatter, Scatter}, "all_to_all": {plan.AllToAll, AllToAll},
}

// elem is the size of an element for a planner's tests.
func elem(name string) int {
	if name == "all_gather" || name == "barrier" {
		return 1
	}
	return 4
}

func prove(t *testing.T, p plan.Planner, s plan.Shape) []*plan.Plan {
	t.Helper()
	plans, err := plantest.Plans(p, s)
	if err == nil {
		err = plantest.Prove(plans)
	}
	require.NoError(t, err, "%v", s)
	return plans
}

// TestProve checks plans of small and of large tensors, of which chunks have many segments.
func TestProve(t *testing.T) {
	for name, p := range planners {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 1; n <= 33; n++ {
				if n > 9 && n%6 != 3 {
					continue
				}
				for i, count := range []int{0, 1, 2, n - 1, n + 1, 97, 1009, 262_144*n + 3, 3*262_144*n + 5} {
					if p.coll == plan.Barrier && i > 0 || n > 9 && count > 2000 || n > 16 && name == "reduce_scatter list" && count > 40 {
						continue
					}
					s := plan.Shape{Coll: p.coll, Size: n, Count: count, Elem: elem(name)}
					if p.coll.Rooted() {
						s.Root = i % n
					}
					prove(t, p.plan, s)
				}
			}
		})
	}
}

// TestProveLarge samples groups to 1,024 ranks.
func TestProveLarge(t *testing.T) {
	sizes := []int{64, 257, 1024}
	if testing.Short() {
		sizes = sizes[:1]
	}
	for name, p := range planners {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, n := range sizes {
				if n > 64 && name == "reduce_scatter list" || n > 300 && p.coll != plan.Broadcast && p.coll != plan.Barrier && p.coll != plan.Gather {
					continue
				}
				count := 5
				if p.coll == plan.Barrier {
					count = 0
				}
				prove(t, p.plan, plan.Shape{Coll: p.coll, Size: n, Count: count, Elem: elem(name)})
			}
		})
	}
}

// TestUneven checks parts of other lengths, none among them.
func TestUneven(t *testing.T) {
	for n := 2; n <= 6; n++ {
		counts := make([]int, n)
		all := make([][]int, n)
		for r := range counts {
			counts[r] = r * 5 % 7
			all[r] = make([]int, n)
			for q := range all[r] {
				all[r][q] = (r + 2*q) % 4
			}
		}
		for _, name := range []string{"reduce_scatter", "reduce_scatter list", "all_gather v", "gather", "scatter"} {
			p := planners[name]
			prove(t, p.plan, plan.Shape{Coll: p.coll, Size: n, Counts: counts, Elem: 4})
		}
		plans, err := plantest.PlansAllToAll(AllToAll, plan.Shape{Coll: plan.AllToAll, Size: n, Elem: 4}, all)
		require.NoError(t, err)
		require.NoError(t, plantest.Prove(plans))
	}
}

// op is commutative, and the order of reduction matters to it.
func op(a, b uint64) uint64 { return (a+b)*0xbf58476d1ce4e5b9 ^ a ^ b }

// TestOrder holds the order of reduction to invariant 2, for chunks of two segments.
func TestOrder(t *testing.T) {
	for n := 2; n <= 6; n++ {
		const per = 3 // elements of a segment
		count := 2 * n * per
		for _, name := range []string{"all_reduce", "reduce", "reduce_scatter"} {
			p := planners[name]
			s := plan.Shape{Coll: p.coll, Size: n, Count: count, Elem: 4}
			if p.coll == plan.ReduceScatter {
				s.Count = 2 * per
			}
			in, out, err := plantest.Outputs(prove(t, p.plan, s), 1, op)
			require.NoError(t, err)
			for r := range out {
				for e, got := range out[r] {
					at := e
					if p.coll == plan.ReduceScatter {
						at += r * s.Count
					}
					c := at / (2 * per)
					x := in[(c+n-1)%n][at]
					for k := n - 2; k >= 0; k-- {
						x = op(in[(c+k)%n][at], x)
					}
					require.Equal(t, x, got, "%s of %d ranks: element %d on rank %d", name, n, e, r)
				}
			}
		}
	}
}

// cost is what a planner's comment states.
type cost struct{ steps, sent, received, scratch int }

// TestCosts compares what the comments state with the plans, for counts that divide evenly. A segment has k elements.
func TestCosts(t *testing.T) {
	const mib = maxSegment / 4
	for _, n := range []int{2, 3, 5, 8} {
		for _, p := range []int{2, 5} { // segments of a chunk; from 2n MiB on they are of 1 MiB
			k := 7
			if p > 2 {
				k = mib
			}
			whole := n * p * k
			moved := (n - 1) * p * k
			check := func(name string, count, root, rank int, want cost) {
				t.Helper()
				q := planners[name]
				plans, err := plantest.Plans(q.plan, plan.Shape{Coll: q.coll, Size: n, Count: count, Root: root, Elem: elem(name)})
				require.NoError(t, err)
				c := plans[rank].Cost()
				require.Equal(t, want, cost{c.Steps, c.Sent, c.Received, c.Scratch}, "%s: %d ranks, %d segments", name, n, p)
			}
			check("all_reduce", whole, 0, n-1, cost{2 * (n - 1) * p, 2 * moved, 2 * moved, 0})
			check("reduce_scatter", p*k, 0, 1, cost{2*(n-1)*p + 1, 2 * moved, 2 * moved, whole})
			surplus := max(0, p-2)
			waste := min(surplus, 1) * k
			check("reduce", whole, 0, 1, cost{(n-1)*p + surplus + 1, moved + surplus*k + p*k, moved + surplus*k, whole + waste})
			check("reduce", whole, 0, 0, cost{(n-1)*p + surplus + n - 1, moved + surplus*k, moved + surplus*k + moved, waste})
			check("all_gather", 10, 0, 0, cost{2*(n-1) + 1, (n - 1) * 10, (n - 1) * 10, 0})
			check("all_gather v", 10, 0, 0, cost{n, (n - 1) * 10, (n - 1) * 10, 0})
			check("gather", 10, 0, 0, cost{n, 0, (n - 1) * 10, 0})
			check("gather", 10, 0, 1, cost{1, 10, 0, 0})
			check("scatter", 10, 0, 0, cost{n, (n - 1) * 10, 0, 0})
			check("all_to_all", 10, 0, 0, cost{n, (n - 1) * 10, (n - 1) * 10, 0})
		}
		for _, name := range []string{"broadcast", "barrier"} {
			q := planners[name]
			plans, err := plantest.Plans(q.plan, plan.Shape{Coll: q.coll, Size: n, Elem: 1})
			require.NoError(t, err)
			rounds := 0
			for d := 1; d < n; d *= 2 {
				rounds++
			}
			require.Equal(t, rounds, plan.Rounds(plans), "%s of %d ranks", name, n)
		}
	}
}

// TestRefused gives planners what they do not plan.
func TestRefused(t *testing.T) {
	for name, p := range planners {
		_, err := p.plan(plan.Shape{Coll: plan.Send, Size: 2, Elem: 1})
		require.Error(t, err, name)
	}
	_, err := AllGather(plan.Shape{Coll: plan.AllGather, Size: 2, Count: 1, Elem: 4})
	require.Error(t, err)
}

func ExampleAllReduce() {
	p, err := AllReduce(plan.Shape{Coll: plan.AllReduce, Rank: 0, Size: 2, Count: 4, Elem: 4})
	fmt.Println(len(p.Lanes[0]), "steps,", p.Cost().Sent, "elements sent,", err)
	// Output: 4 steps, 4 elements sent, <nil>
}
