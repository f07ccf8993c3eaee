package gloo

import "github.com/colligo-go/colligo/plan"

// ReduceScatter reduces one tensor that holds a part for each rank. Gloo has no such collective: PyTorch 2.3 and later reduce a
// copy of all of it on every rank, and keep a part.
//
//	steps    those of AllReduce, and one copy
//	bytes    2(n-1)/n S sent, and as many received
//	scratch  S
//	order    that of AllReduce over the whole tensor
func ReduceScatter(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.ReduceScatter, "gloo_ring", 1)
	if err != nil {
		return nil, err
	}
	b.reducePart(0, plan.Span{Buf: plan.In, Len: s.PartOff(s.Size)}, 0, s.PartSpan(plan.In, s.Rank))
	return b.plan, nil
}

// ReduceScatterList reduces a list that has a tensor for each rank. PyTorch 2.8 and later make it an all-reduce of each tensor, on
// slots that follow one another.
//
//	lanes    n
//	steps    on each lane those of AllReduce of its tensor, and on lane r one copy
//	bytes    2(n-1)/n S sent, and as many received
//	scratch  S
//	order    that of AllReduce over each tensor
func ReduceScatterList(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.ReduceScatter, "gloo_ring_list", s.Size)
	if err != nil {
		return nil, err
	}
	for lane := range s.Size {
		part := s.PartSpan(plan.In, lane)
		kept := plan.Span{Buf: plan.In, Off: part.Off}
		if lane == s.Rank {
			kept = part
		}
		b.reducePart(lane, part, part.Off, kept)
	}
	return b.plan, nil
}

// reducePart reduces a span of the input in scratch, from an offset there, and copies what is kept of it to Out.
func (b *builder) reducePart(lane int, in plan.Span, at int, kept plan.Span) {
	if b.Size == 1 {
		b.copy(lane, plan.Span{Buf: plan.Out, Len: kept.Len}, kept)
		return
	}
	if in.Len == 0 {
		return
	}
	sum := plan.Span{Buf: plan.Scratch, Off: at, Len: in.Len}
	b.plan.Scratch = max(b.plan.Scratch, at+in.Len)
	r := b.newRing(lane, in, sum)
	r.reduceScatter()
	r.allGather()
	b.copy(lane, plan.Span{Buf: plan.Out, Len: kept.Len}, plan.Span{Buf: plan.Scratch, Off: at + kept.Off - in.Off, Len: kept.Len})
}
