// Package plantest holds what tests of planners share. It computes the plans of all ranks of a shape, has an interpreter
// that runs them on numbers, and runs script files of plans.
//
// Invariants:
//
//  1. The interpreter shares no code with plan.Check. It is the dumb twin: it moves numbers about and compares results.
//  2. All randomness comes from the seed that a caller gives.
//
// It is for tests only.
package plantest

import (
	"fmt"
	"slices"

	"github.com/colligo-go/colligo/plan"
)

// Plans returns the plans of all ranks. The Rank of the shape does not count.
func Plans(planner plan.Planner, s plan.Shape) ([]*plan.Plan, error) {
	plans := make([]*plan.Plan, s.Size)
	for r := range plans {
		s.Rank = r
		p, err := planner(s)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
		plans[r] = p
	}
	return plans, nil
}

// PlansAllToAll returns the plans of an uneven all_to_all in which rank r sends counts[r][s] elements to rank s.
func PlansAllToAll(planner plan.Planner, s plan.Shape, counts [][]int) ([]*plan.Plan, error) {
	plans := make([]*plan.Plan, s.Size)
	for r := range plans {
		s.Rank, s.Counts, s.RecvCounts = r, counts[r], make([]int, s.Size)
		for from := range counts {
			s.RecvCounts[from] = counts[from][r]
		}
		p, err := planner(s)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
		plans[r] = p
	}
	return plans, nil
}

// Prove checks the plans of all ranks with In and Out apart, and in the same memory where the collective has such a form.
func Prove(plans []*plan.Plan) error {
	if err := plan.Check(plans); err != nil {
		return err
	}
	if !slices.ContainsFunc(plans, func(p *plan.Plan) bool { return p != nil && p.Shape.Coll.InPlace() }) {
		return nil // both checks are one
	}
	if err := plan.CheckInPlace(plans); err != nil {
		return fmt.Errorf("in place: %w", err)
	}
	return nil
}
