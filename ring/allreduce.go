package ring

import "github.com/colligo-go/colligo/plan"

// AllReduce reduces a tensor on all ranks. Each lane's share is cut into blocks of at most n chunks. Each block is
// reduce-scattered and then gathered, so that a sum is sent while it is still in the cache.
//
//	steps    2(n-1) a block; ⌈S/(nC)⌉ blocks
//	bytes    2(n-1)/n S sent, and as many received, evenly spread over the ranks
//	scratch  none: sums grow in Out
//	order    for piece i of a block from rank i+1 round to rank i; for n = 1 a copy
//
// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
func AllReduce(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.AllReduce)
	if err != nil {
		return nil, err
	}
	for b.lane = range b.plan.Lanes {
		share := b.mine(plan.Span{Buf: plan.Out, Len: s.Count})
		if s.Size == 1 {
			b.copy(share, share.In(plan.In, 0))
			continue
		}
		n := blocks(share.Len, min(b.chunk, share.Len)*s.Size)
		for i := range n {
			b.allReduceBlock(cut(share, n, i))
		}
	}
	return b.plan, nil
}

// allReduceBlock ends with piece i complete at rank i in its first half, and everywhere in its second.
func (b *builder) allReduceBlock(block plan.Span) {
	next, prev := b.peer(1), b.peer(-1)
	piece := func(d int) plan.Span { return cut(block, b.Size, b.peer(d)) }
	for i := range b.Size - 1 {
		src, dst := piece(-1-i), piece(-2-i)
		if i == 0 {
			src.Buf = plan.In
		}
		b.add(plan.Step{To: next, From: prev, Src: src, Dst: dst, Acc: dst.In(plan.In, 0), Reduce: true, Last: i == b.Size-2})
	}
	for i := range b.Size - 1 {
		b.add(plan.Step{To: next, From: prev, Src: piece(-i), Dst: piece(-1 - i)})
	}
}
