package gloo

import (
	"fmt"

	"github.com/colligo-go/colligo/plan"
)

// builder writes one rank's plan.
type builder struct {
	plan.Shape
	plan *plan.Plan
}

// begin starts the plan of a shape, which must be of collective c. All of the plan's lanes are empty.
func begin(s plan.Shape, c plan.Coll, algo string, lanes int) (*builder, error) {
	if s.Coll != c {
		return nil, fmt.Errorf("gloo: the planner of %v was given %v", c, s)
	}
	s.Lanes, s.Chunk = lanes, 0
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("gloo: %w", err)
	}
	return &builder{s, &plan.Plan{Algo: algo, Shape: s, Lanes: make([][]plan.Step, lanes)}}, nil
}

// peer returns the rank that is d further on, modulo the size.
func (b *builder) peer(d int) int { return ((b.Rank+d)%b.Size + b.Size) % b.Size }

func (b *builder) add(lane int, s plan.Step) { b.plan.Lanes[lane] = append(b.plan.Lanes[lane], s) }

// copy adds a local step.
func (b *builder) copy(lane int, dst, src plan.Span) {
	if src.Len > 0 {
		b.add(lane, plan.CopyStep(b.Rank, dst, src))
	}
}

func roundUp(x, to int) int { return (x + to - 1) / to * to }

func ceil(x, by int) int { return (x + by - 1) / by }
