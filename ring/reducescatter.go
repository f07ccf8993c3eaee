package ring

import "github.com/colligo-go/colligo/plan"

// ReduceScatter reduces a tensor of one part for each rank and leaves each rank its own part. It goes block by block; a
// block has at most one chunk of each part. Sums on their way alternate between two pieces of scratch; the last one goes to
// Out.
//
//	steps    n-1 a block; as many blocks as the longest part has chunks
//	bytes    S less one part sent, and S less the own part received; (n-1)/n S each if parts are even
//	scratch  min(n-2, 2) pieces (at most C each)
//	order    for rank i's part from rank i+1 round to rank i; for n = 1 a copy
func ReduceScatter(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.ReduceScatter)
	if err != nil {
		return nil, err
	}
	p := b.parts()
	slots := min(max(s.Size-2, 0), 2)
	b.plan.Scratch = slots * p.longest * p.lanes
	for b.lane = range b.plan.Lanes {
		for k := range p.blocks {
			b.reduceScatterBlock(p, k, slots)
		}
	}
	return b.plan, nil
}

// reduceScatterBlock ends with this rank's piece of block k in Out.
func (b *builder) reduceScatterBlock(p parts, k, slots int) {
	out := p.own(plan.Out, b.Rank, b.lane, k)
	if b.Size == 1 {
		b.copy(out, out.In(plan.In, 0))
	}
	slot := func(i, n int) plan.Span {
		return plan.Span{Buf: plan.Scratch, Off: (b.lane*slots + i%2) * p.longest, Len: n}
	}
	for i := range b.Size - 1 {
		src, acc := p.piece(plan.In, b.peer(-1-i), b.lane, k), p.piece(plan.In, b.peer(-2-i), b.lane, k)
		step := plan.Step{To: b.peer(1), From: b.peer(-1), Src: src, Dst: slot(i, acc.Len), Acc: acc, Reduce: true}
		if i > 0 {
			step.Src = slot(i-1, src.Len)
		}
		if i == b.Size-2 {
			step.Dst, step.Last = out, true
		}
		b.add(step)
	}
}
