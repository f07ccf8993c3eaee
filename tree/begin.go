package tree

import (
	"fmt"

	"github.com/colligo-go/colligo/plan"
)

// Default bytes of a chunk. A chunk is small where chunks overlap in a pipeline, and where they do not only bounds the
// frame.
const (
	pipeBytes  = 128 << 10
	frameBytes = 1 << 20
)

// begin checks that the shape is valid and of the planner's collective, and returns the plan to fill in. With a single
// rank the plan is complete: done is true.
func begin(algo string, coll plan.Coll, s plan.Shape) (p *plan.Plan, done bool, err error) {
	if err := s.Validate(); err != nil {
		return nil, false, err
	}
	if s.Coll != coll {
		return nil, false, fmt.Errorf("tree: %s plans %v, not %v", algo, coll, s.Coll)
	}
	p = &plan.Plan{Algo: algo, Shape: s, Lanes: make([][]plan.Step, 1)}
	if s.Size > 1 {
		return p, false, nil
	}
	if coll != plan.Broadcast && coll != plan.Barrier {
		p.Lanes[0] = copies(0, plan.Span{Buf: plan.Out, Len: s.Len(plan.Out)}, plan.Span{Buf: plan.In, Len: s.Len(plan.In)})
	}
	return p, true, nil
}

// spread fills the given number of lanes, each with its part of the tensor as a span of the input.
func spread(p *plan.Plan, lanes int, steps func(lane int, part plan.Span) []plan.Step) {
	p.Lanes = make([][]plan.Step, lanes)
	for l := range lanes {
		if part := plan.Part(plan.In, p.Shape.Count, lanes, l); part.Len > 0 {
			p.Lanes[l] = steps(l, part)
		}
	}
}
