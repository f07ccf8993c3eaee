package plan_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/plan/plantest"
)

// TestTextRoundTrip reads back what plans, and mutants of them, print. Mutants may say things that have no text form, such
// as a source without a peer. Such plans print the same after a round trip.
func TestTextRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seed, 0))
	for coll, planner := range planners {
		s := plan.Shape{Coll: coll, Size: 4, Root: 2, Count: 21, Elem: 2, Lanes: 2, Chunk: 3}
		plans, err := plantest.Plans(planner, s)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plans {
			q, err := plan.Parse(p.String())
			if err != nil || !reflect.DeepEqual(p, q) {
				t.Errorf("%v\nis read as\n%v (%v)", p, q, err)
			}
		}
		for range 100 {
			mutants, _ := plantest.Mutate(plans, rng)
			rereadMutants(t, mutants)
		}
	}
}

func rereadMutants(t *testing.T, mutants []*plan.Plan) {
	t.Helper()
	for _, p := range mutants {
		if q, err := plan.Parse(p.String()); err == nil && q.String() != p.String() {
			t.Errorf("%v\nis read as\n%v", p, q)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, planner := range []plan.Coll{plan.AllReduce, plan.AllToAll} {
		plans, err := plantest.Plans(planners[planner], plan.Shape{Coll: planner, Size: 3, Count: 7, Elem: 4, Lanes: 2})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(plans[1].String())
	}
	f.Add("gather rank 1/2 root 1 count 0 elem 4 counts 1,2 algo - scratch 3 | out[0:1]=in[0:1]+!scratch[2:3]; >0 in[0:0] |")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := plan.Parse(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error of more than one line: %v", err)
			}
			return
		}
		q, err := plan.Parse(p.String())
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("%q prints as\n%v\nwhich is read as\n%v (%v)", text, p, q, err)
		}
	})
}

// FuzzCheck feeds Check whatever parses: it may say what it likes, but neither panics nor hangs.
func FuzzCheck(f *testing.F) {
	for coll, planner := range planners {
		plans, err := plantest.Plans(planner, plan.Shape{Coll: coll, Size: 2, Count: 3, Elem: 4})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(plans[0].String(), plans[1].String())
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		p, err := plan.Parse(a)
		if err != nil {
			return
		}
		q, err := plan.Parse(b)
		if err != nil {
			return
		}
		if plan.Check([]*plan.Plan{p, q}) == nil && plan.Rounds([]*plan.Plan{p, q}) < 0 {
			t.Errorf("%v\n%v\npass the check and have no rounds", p, q)
		}
		_ = plan.CheckInPlace([]*plan.Plan{p, q})
	})
}
