package tuning_test

import (
	"fmt"

	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

// An algorithm that the program prefers comes before the table, for all shapes that its planner fits.
func ExamplePrefer() {
	table, err := tuning.Prefer(map[string]string{"all_reduce": "ring"}, tuning.Default())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tuning.Pick(table, plan.AllReduce, tuning.Place{Size: 4}, 8).Algo)
	fmt.Println(tuning.Algorithms(plan.Barrier))
	// Output:
	// ring
	// [direct dissemination]
}
