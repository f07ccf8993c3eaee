package gloo

import (
	"fmt"

	"github.com/colligo-go/colligo/plan"
)

// AllGather gathers the parts of all ranks, in two halves each, round a ring to rank r+1. A half may cut an element: the planner
// wants a shape whose elements are bytes.
//
//	steps    2(n-1), and one copy
//	bytes    (n-1)/n S sent, and as many received
//	scratch  none
func AllGather(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.AllGather, "gloo_ring", 1)
	if err != nil {
		return nil, err
	}
	if s.Elem != 1 || s.Counts != nil {
		return nil, fmt.Errorf("gloo: an all_gather of elements of %d bytes, counts %v", s.Elem, s.Counts)
	}
	if s.Count == 0 {
		return b.plan, nil
	}
	b.copy(0, s.PartSpan(plan.Out, s.Rank), plan.Span{Buf: plan.In, Len: s.Count})
	half := [2]int{s.Count / 2, s.Count - s.Count/2}
	for i := range 2 * (s.Size - 1) {
		span := func(rank int) plan.Span {
			part := s.PartSpan(plan.Out, (rank+s.Size)%s.Size)
			return plan.Span{Buf: plan.Out, Off: part.Off + i%2*half[0], Len: half[i%2]}
		}
		b.add(0, plan.Step{To: b.peer(1), From: b.peer(-1), Src: span(s.Rank - i/2), Dst: span(s.Rank - i/2 - 1)})
	}
	return b.plan, nil
}

// AllGatherV gathers parts of any lengths, whole, round a ring to rank r+1. PyTorch uses it only within a sparse all_reduce.
//
//	steps    n-1, and one copy
//	bytes    S less the part of rank r+1 sent, and S less that of rank r received
//	scratch  none
func AllGatherV(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.AllGather, "gloo_ring_v", 1)
	if err != nil || s.PartOff(s.Size) == 0 {
		return planOf(b), err
	}
	b.copy(0, s.PartSpan(plan.Out, s.Rank), plan.Span{Buf: plan.In, Len: s.PartLen(s.Rank)})
	for i := range s.Size - 1 {
		b.add(0, plan.Step{To: b.peer(1), From: b.peer(-1), Src: s.PartSpan(plan.Out, b.peer(-i)), Dst: s.PartSpan(plan.Out, b.peer(-i-1))})
	}
	return b.plan, nil
}

func planOf(b *builder) *plan.Plan {
	if b == nil {
		return nil
	}
	return b.plan
}
