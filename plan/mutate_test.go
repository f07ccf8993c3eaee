package plan_test

import (
	"flag"
	"testing"

	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/plan/plantest"
	"github.com/colligo-go/colligo/ring"
)

var seed = flag.Uint64("seed", 1, "seed of mutations")

var planners = map[plan.Coll]plan.Planner{
	plan.AllReduce: ring.AllReduce, plan.ReduceScatter: ring.ReduceScatter, plan.AllGather: ring.AllGather,
	plan.Broadcast: ring.Broadcast, plan.Reduce: ring.Reduce, plan.AllToAll: ring.AllToAll,
}

// TestMutants changes plans that are right at random. Most changes are faults, and each fault must be found. A plan that
// Check lets pass must give the right result in the interpreter, which knows nothing of Check.
func TestMutants(t *testing.T) {
	t.Logf("seed %d", *seed)
	n := 400
	if testing.Short() {
		n = 60
	}
	for coll, planner := range planners {
		for _, s := range []plan.Shape{
			{Size: 2, Count: 4}, {Size: 3, Count: 7, Chunk: 2}, {Size: 4, Count: 13, Lanes: 2, Root: 1}, {Size: 5, Count: 3, Lanes: 3, Chunk: 1},
		} {
			s.Coll, s.Elem = coll, 4
			plans, err := plantest.Plans(planner, s)
			if err != nil {
				t.Fatal(err)
			}
			doubt(t, plans, false, n)
			doubt(t, plans, true, n)
		}
	}
}

func doubt(t *testing.T, plans []*plan.Plan, inPlace bool, n int) {
	t.Helper()
	s := plans[0].Shape
	if err := plantest.Run(plans, inPlace, *seed); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	found, err := plantest.Doubt(plans, inPlace, n, *seed)
	if err != nil {
		t.Error(err)
	}
	if found < n/3 {
		t.Errorf("%v: only %d of %d mutants were found wrong", s, found, n)
	}
	t.Logf("%v in place %v: %d of %d mutants were found wrong", s, inPlace, found, n)
}
