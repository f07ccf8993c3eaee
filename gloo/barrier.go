package gloo

import "github.com/colligo-go/colligo/plan"

// Barrier sends empty messages to the ranks at distances 1, 2, 4, …, and receives one from as far behind each time.
//
//	rounds   lg n
//	bytes    none
//	scratch  none
func Barrier(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.Barrier, "gloo_dissemination", 1)
	if err != nil {
		return nil, err
	}
	for d := 1; d < s.Size; d *= 2 {
		b.add(0, plan.Step{To: b.peer(d), From: b.peer(-d)})
	}
	return b.plan, nil
}
