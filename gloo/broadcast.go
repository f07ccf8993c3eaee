package gloo

import "github.com/colligo-go/colligo/plan"

// Broadcast copies the root's tensor to all ranks over a binomial tree. Numbered from the root, a rank's parent is its number
// without the highest bit.
//
//	rounds   lg n
//	bytes    S received, S sent to each child
//	scratch  none
func Broadcast(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.Broadcast, "gloo_binomial", 1)
	if err != nil {
		return nil, err
	}
	whole := plan.Span{Buf: plan.Out, Len: s.Count}
	if s.Rank == s.Root {
		whole.Buf = plan.In
	}
	relative := b.peer(-s.Root)
	for bit := 1; bit < s.Size; bit *= 2 {
		partner := relative ^ bit
		if relative >= 2*bit || partner >= s.Size {
			continue
		}
		if rank := (partner + s.Root) % s.Size; relative&bit == 0 {
			b.add(0, plan.SendTo(rank, whole))
		} else {
			b.add(0, plan.RecvFrom(rank, whole))
		}
	}
	return b.plan, nil
}
