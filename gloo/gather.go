package gloo

import "github.com/colligo-go/colligo/plan"

// Gather sends every rank's part to the root.
//
//	steps    at the root n-1 and one copy, elsewhere 1
//	bytes    S less its own part received at the root, its part sent by every other rank
//	scratch  none
func Gather(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.Gather, "gloo_direct", 1)
	if err != nil {
		return nil, err
	}
	own := plan.Span{Buf: plan.In, Len: s.PartLen(s.Rank)}
	if s.Rank != s.Root {
		b.add(0, plan.SendTo(s.Root, own))
		return b.plan, nil
	}
	b.copy(0, s.PartSpan(plan.Out, s.Root), own)
	for r := range s.Size {
		if r != s.Root {
			b.add(0, plan.RecvFrom(r, s.PartSpan(plan.Out, r)))
		}
	}
	return b.plan, nil
}

// Scatter sends every rank its part from the root.
//
//	steps    at the root n-1 and one copy, elsewhere 1
//	bytes    S less its own part sent by the root, its part received by every other rank
//	scratch  none
func Scatter(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.Scatter, "gloo_direct", 1)
	if err != nil {
		return nil, err
	}
	own := plan.Span{Buf: plan.Out, Len: s.PartLen(s.Rank)}
	if s.Rank != s.Root {
		b.add(0, plan.RecvFrom(s.Root, own))
		return b.plan, nil
	}
	for r := range s.Size {
		if r != s.Root {
			b.add(0, plan.SendTo(r, s.PartSpan(plan.In, r)))
		}
	}
	b.copy(0, own, s.PartSpan(plan.In, s.Root))
	return b.plan, nil
}
