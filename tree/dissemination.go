package tree

import "github.com/colligo-go/colligo/plan"

// Dissemination plans a barrier (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988). With
// distances 1, 2, 4, … below n each rank sends an empty frame that far ahead, and receives one from as far behind. The
// number of ranks that it knows to have entered doubles each round.
//
//	rounds   lg n
//	bytes    none; lg n frames sent and received
//	lanes    one
func Dissemination(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("dissemination", plan.Barrier, s)
	if done || err != nil {
		return p, err
	}
	n := s.Size
	for d := 1; d < n; d *= 2 {
		p.Lanes[0] = append(p.Lanes[0], plan.Step{To: (s.Rank + d) % n, From: (s.Rank + n - d) % n})
	}
	return p, nil
}
