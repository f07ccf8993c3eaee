package gloo

import "github.com/colligo-go/colligo/plan"

// AllToAll sends a part to every rank: in step i to rank r+i, with the part of rank r-i in return.
//
//	steps    n-1, and one copy
//	bytes    what goes to other ranks sent, what comes from them received
//	scratch  none
func AllToAll(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.AllToAll, "gloo_rotation", 1)
	if err != nil {
		return nil, err
	}
	in := func(r int) plan.Span { return plan.Span{Buf: plan.In, Off: s.PartOff(r), Len: s.PartLen(r)} }
	out := func(r int) plan.Span { return plan.Span{Buf: plan.Out, Off: s.RecvOff(r), Len: s.RecvLen(r)} }
	b.copy(0, out(s.Rank), in(s.Rank))
	for i := 1; i < s.Size; i++ {
		to, from := b.peer(i), b.peer(-i)
		b.add(0, plan.Step{To: to, From: from, Src: in(to), Dst: out(from)})
	}
	return b.plan, nil
}
