package plan_test

import (
	"fmt"

	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/tree"
)

// A rank that leaves out its last step is found before anything runs.
func ExampleCheck() {
	var plans []*plan.Plan
	for rank := range 4 {
		p, err := tree.BinomialBroadcast(plan.Shape{Coll: plan.Broadcast, Rank: rank, Size: 4, Count: 8, Elem: 4})
		if err != nil {
			fmt.Println(err)
			return
		}
		plans = append(plans, p)
	}
	fmt.Println(plan.Check(plans))
	last := len(plans[0].Lanes[0]) - 1
	plans[0].Lanes[0] = plans[0].Lanes[0][:last]
	fmt.Println(plan.Check(plans))
	// Output:
	// <nil>
	// plan: broadcast binomial: deadlock on lane 0: rank 1 step 0 waits to receive from rank 0; rank 0 is at its end
}
