package ring

import (
	"fmt"
	"strings"
	"testing"

	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/plan/plantest"
)

var planners = map[plan.Coll]plan.Planner{
	plan.AllReduce: AllReduce, plan.ReduceScatter: ReduceScatter, plan.AllGather: AllGather,
	plan.Broadcast: Broadcast, plan.Reduce: Reduce, plan.AllToAll: AllToAll,
}

// forAll runs a test for each collective, at the same time.
func forAll(t *testing.T, test func(t *testing.T, c plan.Coll, p plan.Planner)) {
	for c, p := range planners {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			test(t, c, p)
		})
	}
}

// prove plans a shape for all ranks and checks the plans.
func prove(t *testing.T, p plan.Planner, s plan.Shape) []*plan.Plan {
	t.Helper()
	plans, err := plantest.Plans(p, s)
	if err == nil {
		err = plantest.Prove(plans)
	}
	if err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	return plans
}

// TestProveSmall takes all sizes to 33 with counts around them. Of the nine pairs of lanes and chunks each size and count
// takes two, or one from 12 ranks on. All pairs come up in turn.
func TestProveSmall(t *testing.T) {
	forAll(t, func(t *testing.T, c plan.Coll, p plan.Planner) {
		turn := 0
		for n := 1; n <= 33; n++ {
			if testing.Short() && n > 9 && n%6 != 0 {
				continue
			}
			proveCounts(t, c, n, &turn)
		}
	})
}

func proveCounts(t *testing.T, c plan.Coll, n int, turn *int) {
	t.Helper()
	for _, count := range []int{0, 1, 2, 3, n - 1, n, n + 1, 97, 1009} {
		for range 1 + min(1, 11/n) {
			s := plan.Shape{Coll: c, Size: n, Count: count, Elem: 4, Lanes: 1 + *turn%3, Chunk: []int{0, 7, 1}[*turn/3%3]}
			if count > 97 && (s.Chunk == 1 || parted(c)) {
				s.Chunk = 301 // smaller chunks take minutes and show nothing new
			}
			*turn += 4
			if c.Rooted() {
				s.Root = *turn % n
			}
			prove(t, planners[c], s)
		}
	}
}

// TestProveRoots takes every root of small groups.
func TestProveRoots(t *testing.T) {
	for _, c := range []plan.Coll{plan.Broadcast, plan.Reduce} {
		for n := 1; n <= 9; n++ {
			for root := range n {
				prove(t, planners[c], plan.Shape{Coll: c, Size: n, Root: root, Count: 17, Elem: 4, Lanes: 2, Chunk: 3})
			}
		}
	}
}

// TestProveLarge samples groups to 1,024 ranks.
func TestProveLarge(t *testing.T) {
	sizes := []int{64, 100, 257, 1024}
	if testing.Short() || racing {
		sizes = sizes[:2]
	}
	forAll(t, func(t *testing.T, c plan.Coll, p plan.Planner) {
		for _, n := range sizes {
			counts := []int{1031, n - 1, 3}
			switch {
			case parted(c) && n > 200:
				counts = []int{1}
			case parted(c):
				counts = []int{1, 3}
			case n > 500:
				counts = []int{100, 3}
			}
			for i, count := range counts {
				prove(t, p, plan.Shape{Coll: c, Size: n, Root: 0, Count: count, Elem: 2, Lanes: 1 + i%2, Chunk: 500})
			}
		}
	})
}

func parted(c plan.Coll) bool {
	return c == plan.AllGather || c == plan.ReduceScatter || c == plan.AllToAll
}

// TestProveUneven takes parts of all lengths, none among them.
func TestProveUneven(t *testing.T) {
	for n := 1; n <= 12; n++ {
		for turn := range 8 {
			s := plan.Shape{Size: n, Elem: 4, Lanes: 1 + turn%2*2, Chunk: 1 + turn/2, Counts: make([]int, n)}
			for r := range s.Counts {
				s.Counts[r] = (r*7 + turn*5) % 11 * min(turn, 1)
			}
			s.Coll = plan.AllGather
			prove(t, AllGather, s)
			s.Coll = plan.ReduceScatter
			prove(t, ReduceScatter, s)
			s.Coll = plan.AllToAll
			proveBlocks(t, s, turn)
		}
	}
}

// proveBlocks takes an all_to_all with blocks of all lengths.
func proveBlocks(t *testing.T, s plan.Shape, turn int) {
	t.Helper()
	blocks := make([][]int, s.Size)
	for r := range blocks {
		blocks[r] = make([]int, s.Size)
		for to := range blocks[r] {
			blocks[r][to] = (r*5 + to*3 + turn) % 7 * ((r + to + turn) % 3)
		}
	}
	plans, err := plantest.PlansAllToAll(AllToAll, s, blocks)
	if err == nil {
		err = plantest.Prove(plans)
	}
	if err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	if err := plantest.Run(plans, false, 1); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
}

// TestRun executes plans on numbers.
func TestRun(t *testing.T) {
	forAll(t, func(t *testing.T, c plan.Coll, p plan.Planner) {
		for n := 1; n <= 8; n++ {
			for _, count := range []int{0, 1, n + 1, 29} {
				runAll(t, prove(t, p, plan.Shape{Coll: c, Size: n, Count: count, Elem: 4, Lanes: 2, Chunk: 3}))
			}
		}
	})
}

func runAll(t *testing.T, plans []*plan.Plan) {
	t.Helper()
	for seed := range uint64(3) {
		if err := plantest.Run(plans, seed > 0, seed); err != nil {
			t.Errorf("%v: %v", plans[0].Shape, err)
		}
	}
}

func TestScripts(t *testing.T) {
	for c, p := range planners {
		t.Run(c.String(), func(t *testing.T) {
			plantest.Script(t, "testdata/"+strings.ReplaceAll(c.String(), "_", "")+".txt", p)
		})
	}
}

// TestErrors gives planners shapes that are not theirs.
func TestErrors(t *testing.T) {
	forAll(t, func(t *testing.T, c plan.Coll, p plan.Planner) {
		wrong := plan.Shape{Coll: plan.Barrier, Size: 2, Elem: 1}
		want := fmt.Sprintf("ring: the planner of %v was given barrier rank 0/2 count 0 elem 1", c)
		if _, err := p(wrong); err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
		if _, err := p(plan.Shape{Coll: c, Size: 2, Rank: 2, Elem: 1}); err == nil {
			t.Error("plans for rank 2 of 2")
		}
	})
	s := plan.Shape{Coll: plan.AllToAll, Size: 1, Elem: 1, Counts: []int{1}, RecvCounts: []int{2}}
	if _, err := AllToAll(s); err == nil {
		t.Error("plans an all_to_all of a rank that sends itself 1 element and receives 2")
	}
}
