package gloo

import "github.com/colligo-go/colligo/plan"

// Reduce reduces a tensor at the root: the first phase of the ring, after which each rank sends its chunk to the root. If a chunk
// has more than two segments, two rounds less than that follow in which complete segments go on for nothing.
//
//	steps    (n-1)p + max(0, p-2) + 1, and at the root n-1 in place of the last one
//	bytes    (n-1)/n S, those of the rounds for nothing, and but for the root S/n
//	scratch  S and, with rounds for nothing, a segment; at the root only the latter
//	order    invariant 2; for n = 1 a copy
func Reduce(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.Reduce, "gloo_ring", 1)
	if err != nil {
		return nil, err
	}
	in, sum := plan.Span{Buf: plan.In, Len: s.Count}, plan.Span{Buf: plan.Out, Len: s.Count}
	switch {
	case s.Count == 0:
		return b.plan, nil
	case s.Size == 1:
		b.copy(0, sum, in)
		return b.plan, nil
	case s.Rank != s.Root:
		sum.Buf, b.plan.Scratch = plan.Scratch, s.Count
	}
	r := b.newReduceRing(in, sum)
	r.reduceScatter()
	r.surplus()
	r.collect()
	return b.plan, nil
}

// newReduceRing cuts a tensor as Gloo does for a reduce: the length of a segment comes first, and then their number.
func (b *builder) newReduceRing(in, sum plan.Span) *ring {
	bytes := in.Len * b.Elem
	length := roundUp(min(ceil(bytes, 2*b.Size), b.Elem*max(1, maxSegment/b.Elem)), b.Elem)
	r := &ring{builder: b, in: in, sum: sum, length: length / b.Elem, segments: roundUp(max(ceil(bytes, length), 2*b.Size), b.Size)}
	r.each = r.segments / b.Size
	return r
}

// surplus adds the rounds for nothing. The segments that arrive go to scratch that nothing reads.
func (r *ring) surplus() {
	waste := r.plan.Scratch
	for i := r.segments - r.each; i < r.segments-2; i++ {
		dst := r.segment(r.sum, r.Rank+2, i)
		if dst.Len > 0 {
			r.plan.Scratch = waste + r.length
		}
		r.exchange(r.segment(r.sum, r.Rank+1, i), plan.Span{Buf: plan.Scratch, Off: waste, Len: dst.Len}, plan.Step{})
	}
}

// collect brings the chunks to the root, in the order of the ranks.
func (r *ring) collect() {
	chunk := r.each * r.length
	for rank := range r.Size {
		off := rank * chunk
		if off >= r.sum.Len || rank == r.Root {
			continue
		}
		part := plan.Span{Buf: r.sum.Buf, Off: off, Len: min(chunk, r.sum.Len-off)}
		if r.Rank == r.Root {
			r.add(0, plan.RecvFrom(rank, part))
		} else if r.Rank == rank {
			r.add(0, plan.SendTo(r.Root, part))
		}
	}
}
