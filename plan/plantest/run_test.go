package plantest

import (
	"strings"
	"testing"

	"github.com/colligo-go/colligo/plan"
)

// TestRunFindsFaults: an interpreter that finds everything right would be no twin.
func TestRunFindsFaults(t *testing.T) {
	for _, c := range []struct{ name, rank0, rank1, want string }{
		{"right", "| >1 in[0:2] <1 out[0:2]=in[0:2]+!", "| >0 in[0:2] <0 out[0:2]=in[0:2]+!", ""},
		{"not finished", "| >1 in[0:2] <1 out[0:2]=in[0:2]+!", "| >0 in[0:2] <0 out[0:2]=in[0:2]+", "rank 1: element 0 of the output is wrong"},
		{"missing", "| >1 in[0:2] <1 out[0:2]=in[0:2]+!", "| >0 in[0:2] <0 out[0:2]", "rank 1: element 0 of the output is wrong"},
		{"unwritten", "| >1 in[0:1] <1 out[0:1]=in[0:1]+!", "| >0 in[0:1] <0 out[0:1]=in[0:1]+!", "rank 0: element 1 of the output is wrong"},
		{"changed input", "| >1 in[0:2] <1 in[0:2]=in[0:2]+!; out[0:2]=in[0:2]", "| >0 in[0:2] <0 out[0:2]=in[0:2]+!", "rank 0: element 0 of the input has changed"},
		{"deadlock", "| >1 in[0:2]; <1 out[0:2]=in[0:2]+!", "| >0 in[0:2]; <0 out[0:2]=in[0:2]+!", "has 2 steps left"},
		{"lengths", "| >1 in[0:2] <1 out[0:1]=in[0:1]+!", "| >0 in[0:2] <0 out[0:2]=in[0:2]+!", "receives 2 elements for 1"},
		{"outside", "| >1 in[0:2] <1 out[1:3]=in[0:2]+!", "| >0 in[0:2] <0 out[0:2]=in[0:2]+!", "out of range"},
	} {
		err := Run(parse(t, c.rank0, c.rank1), false, 1)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.want)
		}
	}
}

// TestRunTellsOrders: three ranks that have the same sum by different orders.
func TestRunTellsOrders(t *testing.T) {
	plans := parse(t, "| >1 in[0:2]; >2 in[0:2]; <1 out[0:2]=in[0:2]+; <2 out[0:2]=out[0:2]+!",
		"| <0 out[0:2]=in[0:2]+; >0 in[0:2]; >2 in[0:2]; <2 out[0:2]=out[0:2]+!",
		"| <0 out[0:2]=in[0:2]+; <1 out[0:2]=out[0:2]+!; >0 in[0:2]; >1 in[0:2]")
	if err := Run(plans, false, 1); err == nil || !strings.Contains(err.Error(), "not reduced as on rank 0") {
		t.Errorf("error is %v", err)
	}
}

// parse returns plans of an all_reduce of two elements with the given lanes.
func parse(t *testing.T, lanes ...string) []*plan.Plan {
	t.Helper()
	plans := make([]*plan.Plan, len(lanes))
	for r, lane := range lanes {
		s := plan.Shape{Coll: plan.AllReduce, Rank: r, Size: len(lanes), Count: 2, Elem: 8}
		p, err := plan.Parse(s.String() + " algo x " + lane)
		if err != nil {
			t.Fatal(err)
		}
		plans[r] = p
	}
	return plans
}
