package ring

import "github.com/colligo-go/colligo/plan"

// AllGather gives each rank the parts of all, block by block of at most one chunk of each part.
//
//	steps    n-1 and a copy a block; as many blocks as the longest part has chunks
//	bytes    S less one part sent, and S less the own part received; (n-1)/n S each if parts are even
//	scratch  none
func AllGather(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.AllGather)
	if err != nil {
		return nil, err
	}
	p := b.parts()
	for b.lane = range b.plan.Lanes {
		for k := range p.blocks {
			b.copy(p.piece(plan.Out, s.Rank, b.lane, k), p.own(plan.In, s.Rank, b.lane, k))
			for i := range s.Size - 1 {
				src, dst := p.piece(plan.Out, b.peer(-i), b.lane, k), p.piece(plan.Out, b.peer(-1-i), b.lane, k)
				b.add(plan.Step{To: b.peer(1), From: b.peer(-1), Src: src, Dst: dst})
			}
		}
	}
	return b.plan, nil
}
