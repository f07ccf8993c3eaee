package ring

import "github.com/colligo-go/colligo/plan"

// Reduce reduces a tensor to the root along the chain root+n-1, …, root+1, root in chunks. A rank in the middle receives
// chunk j, reduces it with its own into scratch, and sends chunk j-1 at once.
//
//	steps    T at the ends of the chain, one more in the middle; T+n-2 rounds in all
//	bytes    S sent except at the root, S received except at the far end
//	scratch  two chunks in the middle, one if there is only one chunk
//	order    x(root) + (x(root+1) + (… + x(root+n-1))), ranks modulo n; for n = 1 a copy
func Reduce(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.Reduce)
	if err != nil {
		return nil, err
	}
	for b.lane = range b.plan.Lanes {
		share := b.mine(plan.Span{Buf: plan.In, Len: s.Count})
		n := blocks(share.Len, b.chunk)
		switch pos := b.ahead(s.Rank); {
		case s.Size == 1:
			b.copy(share.In(plan.Out, 0), share)
		case pos == 0:
			for j := range n {
				own := cut(share, n, j)
				b.add(plan.Step{To: plan.None, From: b.peer(1), Dst: own.In(plan.Out, 0), Acc: own, Reduce: true, Last: true})
			}
		case pos == s.Size-1:
			for j := range n {
				b.add(plan.SendTo(b.peer(-1), cut(share, n, j)))
			}
		default:
			b.middleOfReduce(share, n)
		}
	}
	return b.plan, nil
}

// middleOfReduce alternates between two pieces of scratch: one fills while the other is sent.
func (b *builder) middleOfReduce(share plan.Span, n int) {
	if n == 0 {
		return
	}
	base, longest := b.plan.Scratch, cut(share, n, 0).Len
	b.plan.Scratch += min(n, 2) * longest
	slot := func(j int) plan.Span {
		return plan.Span{Buf: plan.Scratch, Off: base + j%2*longest, Len: cut(share, n, j).Len}
	}
	for j := range n + 1 {
		step := plan.Step{To: plan.None, From: plan.None}
		if j < n {
			step.From, step.Dst, step.Acc, step.Reduce = b.peer(1), slot(j), cut(share, n, j), true
		}
		if j > 0 {
			step.To, step.Src = b.peer(-1), slot(j-1)
		}
		b.add(step)
	}
}
