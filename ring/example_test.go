package ring_test

import (
	"fmt"

	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
)

// All ranks of a group compute their plans alone; checked together they fit.
func ExampleAllReduce() {
	var plans []*plan.Plan
	for rank := range 3 {
		p, err := ring.AllReduce(plan.Shape{Coll: plan.AllReduce, Rank: rank, Size: 3, Count: 6, Elem: 4})
		if err != nil {
			fmt.Println(err)
			return
		}
		plans = append(plans, p)
	}
	fmt.Println(plan.Check(plans))
	fmt.Println(plans[0].Cost())
	fmt.Println(plans[0])
	// Output:
	// <nil>
	// 4 steps, sent 8, received 8, reduced 4, copied 0, scratch 0
	// all_reduce rank 0/3 count 6 elem 4 algo ring | >1 in[4:6] <2 out[2:4]=in[2:4]+; >1 out[2:4] <2 out[0:2]=in[0:2]+!; >1 out[0:2] <2 out[4:6]; >1 out[4:6] <2 out[2:4]
}
