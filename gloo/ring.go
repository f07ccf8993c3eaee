package gloo

import "github.com/colligo-go/colligo/plan"

// maxSegment is the most bytes of one message of a ring.
const maxSegment = 1 << 20

// ring is one tensor on its way round the ring of ranks. Lengths are in elements.
type ring struct {
	*builder
	lane     int
	in, sum  plan.Span // the tensor of this rank, and where sums grow
	segments int       // of the whole tensor, a multiple of the size
	each     int       // of a chunk
	length   int       // of a segment
}

// newRing cuts a tensor for an all-reduce: into segments of at most 1 MiB, all of one length but for the last with elements.
func (b *builder) newRing(lane int, in, sum plan.Span) *ring {
	bytes := in.Len * b.Elem
	most := b.Elem * max(1, maxSegment/b.Elem)
	r := &ring{builder: b, lane: lane, in: in, sum: sum, segments: roundUp(max(ceil(bytes, most), 2*b.Size), b.Size)}
	r.each = r.segments / b.Size
	r.length = ceil(ceil(bytes, r.segments), b.Elem)
	return r
}

// segment returns segment i of chunk c of a span; one that lies behind the end has no elements.
func (r *ring) segment(s plan.Span, c, i int) plan.Span {
	off := (c*r.each + i) * r.length % (r.segments * r.length)
	return plan.Span{Buf: s.Buf, Off: s.Off + off, Len: max(0, min(r.length, s.Len-off))}
}

// exchange adds a step to rank r-1 and from rank r+1, without what has no elements.
func (r *ring) exchange(src, dst plan.Span, s plan.Step) {
	s.To, s.From = plan.None, plan.None
	if src.Len > 0 {
		s.To, s.Src = r.peer(-1), src
	}
	if dst.Len > 0 {
		s.From, s.Dst = r.peer(1), dst
	} else {
		s.Reduce, s.Last, s.Acc = false, false, plan.Span{}
	}
	if s.To != plan.None || s.From != plan.None {
		r.add(r.lane, s)
	}
}

// reduceScatter adds the first phase. After it chunk r of the sums is complete at rank r.
func (r *ring) reduceScatter() {
	rounds := r.segments - r.each
	for i := range rounds {
		from := r.sum
		if i < r.each {
			from = r.in
		}
		dst := r.segment(r.sum, r.Rank+2, i)
		r.exchange(r.segment(from, r.Rank+1, i), dst, plan.Step{Reduce: true, Last: i >= rounds-r.each, Acc: r.segment(r.in, r.Rank+2, i)})
	}
}

// allGather adds the second phase.
func (r *ring) allGather() {
	for i := range r.segments - r.each {
		r.exchange(r.segment(r.sum, r.Rank, i), r.segment(r.sum, r.Rank+1, i), plan.Step{})
	}
}
