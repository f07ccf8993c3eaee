package ring

import "github.com/colligo-go/colligo/plan"

// Broadcast sends the root's tensor along the chain root, root+1, …, root+n-1 in chunks. A rank in the middle receives chunk
// j and sends chunk j-1 at once.
//
//	steps    T at the ends of the chain, one more in the middle; T+n-2 rounds in all
//	bytes    S received except at the root, S sent except at the end
//	scratch  none
func Broadcast(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.Broadcast)
	if err != nil {
		return nil, err
	}
	pos, buf := b.ahead(s.Rank), plan.Out
	if pos == 0 {
		buf = plan.In
	}
	for b.lane = range b.plan.Lanes {
		share := b.mine(plan.Span{Buf: buf, Len: s.Count})
		n := blocks(share.Len, b.chunk)
		if pos == 0 || pos == s.Size-1 {
			b.endOfBroadcast(share, n)
			continue
		}
		for j := range n + min(n, 1) {
			step := plan.Step{To: plan.None, From: plan.None}
			if j < n {
				step.From, step.Dst = b.peer(-1), cut(share, n, j)
			}
			if j > 0 {
				step.To, step.Src = b.peer(1), cut(share, n, j-1)
			}
			b.add(step)
		}
	}
	return b.plan, nil
}

// endOfBroadcast plans the root, which only sends, and the last rank, which only receives.
func (b *builder) endOfBroadcast(share plan.Span, n int) {
	for j := range n {
		switch {
		case b.Size == 1:
		case b.Rank == b.Root:
			b.add(plan.SendTo(b.peer(1), cut(share, n, j)))
		default:
			b.add(plan.RecvFrom(b.peer(-1), cut(share, n, j)))
		}
	}
}
