package plan

import (
	"cmp"
	"slices"
)

// checkRank checks what can be said of one rank's steps without running them.
func (c *checker) checkRank(rank int) error {
	p := c.plans[rank]
	for lane, steps := range p.Lanes {
		for i := range steps {
			if what := c.checkStep(rank, &steps[i]); what != "" {
				return c.fault(rank, lane, i, "%s", what)
			}
		}
	}
	if len(p.Lanes) < 2 {
		return nil
	}
	return c.checkRaces(rank)
}

// checkStep says what is wrong with one step, nothing if it is sound by itself.
func (c *checker) checkStep(rank int, s *Step) string {
	local := s.Local(rank)
	sends, receives := s.To != None, s.From != None
	switch {
	case s.To < None || s.To >= c.size || s.From < None || s.From >= c.size:
		return sprint("peers %d and %d of %d ranks", s.To, s.From, c.size)
	case s.To == rank:
		return "sends to its own rank"
	case local && sends:
		return sprint("is local and sends to rank %d", s.To)
	case !sends && !receives:
		return "neither sends nor receives"
	case s.Reduce && !receives:
		return "reduces and receives nothing"
	case s.Last && !s.Reduce:
		return "is marked Last and does not reduce"
	case !sends && !local && s.Src != Span{}:
		return sprint("has a source %v and sends nothing", s.Src)
	case !receives && s.Dst != Span{}:
		return sprint("has a destination %v and receives nothing", s.Dst)
	case !s.Reduce && s.Acc != Span{}:
		return sprint("has an operand %v and does not reduce", s.Acc)
	case s.Reduce && s.Acc.Len != s.Dst.Len:
		return sprint("reduces with %v into %v", s.Acc, s.Dst)
	case local && s.Src.Len != s.Dst.Len:
		return sprint("moves %v to %v", s.Src, s.Dst)
	case receives && s.Dst.Buf == In && s.Dst.Len > 0:
		return sprint("writes the input %v", s.Dst)
	}
	for _, span := range []Span{s.Src, s.Dst, s.Acc} {
		if span.Buf > Scratch || span.Off < 0 || span.Len < 0 || span.Off > c.layouts[rank].len[span.Buf]-span.Len {
			return sprint("span %v is outside of %v", span, c.buffer(rank, span.Buf))
		}
	}
	return c.checkHazards(rank, s, local)
}

// buffer describes a whole buffer for an error.
func (c *checker) buffer(rank int, b Buf) Span {
	if b > Scratch {
		return Span{Buf: b}
	}
	return Span{b, 0, c.layouts[rank].len[b]}
}

// checkHazards finds a step that writes what it reads, other than element by element in the same place.
func (c *checker) checkHazards(rank int, s *Step, local bool) string {
	l := &c.layouts[rank]
	src, dst, acc := l.at(s.Src), l.at(s.Dst), l.at(s.Acc)
	switch {
	case overlap(src, dst) && !(local && src == dst):
		return sprint("writes %v while it reads %v to send", s.Dst, s.Src)
	case overlap(acc, dst) && acc != dst:
		return sprint("writes %v while it reads %v to reduce", s.Dst, s.Acc)
	}
	return ""
}

func overlap(a, b Span) bool {
	return a.Buf == b.Buf && a.Len > 0 && b.Len > 0 && a.Off < b.Off+b.Len && b.Off < a.Off+a.Len
}

// access is a range of memory that a step reads or writes.
type access struct {
	span       Span
	lane, step int32
	write      bool
}

// start is where one of a rank's accesses begins: a number that grows with the buffer and the offset in it.
type start struct {
	at     uint64
	access int32
}

// checkRaces finds two lanes of a rank of which one writes what the other touches: nothing orders them.
func (c *checker) checkRaces(rank int) error {
	all := c.accesses(rank)
	starts := c.starts[:0]
	for i := range all {
		starts = append(starts, start{uint64(all[i].span.Buf)<<62 | uint64(all[i].span.Off), int32(i)})
	}
	c.starts = starts
	slices.SortFunc(starts, func(a, b start) int { return cmp.Compare(a.at, b.at) })
	// Of what begins earlier in memory, a lane's access (and its write) that reaches farthest is the one to collide with.
	type reach struct{ any, write *access }
	reached := make([]reach, len(c.plans[rank].Lanes))
	for i := range starts {
		a := &all[starts[i].access]
		for lane, far := range reached {
			other := far.write
			if a.write {
				other = far.any
			}
			if lane != int(a.lane) && other != nil && overlap(a.span, other.span) {
				return c.fault(rank, int(a.lane), int(a.step), "%s %v while lane %d step %d %s %v",
					verb(a.write), a.span, other.lane, other.step, verb(other.write), other.span)
			}
		}
		r := &reached[a.lane]
		r.any = farther(r.any, a)
		if a.write {
			r.write = farther(r.write, a)
		}
	}
	return nil
}

func farther(a, b *access) *access {
	if a == nil || a.span.Buf != b.span.Buf || a.span.Off+a.span.Len < b.span.Off+b.span.Len {
		return b
	}
	return a
}

// accesses lists what all steps of a rank touch. The list is good until the next rank's.
func (c *checker) accesses(rank int) []access {
	all := c.touched[:0]
	for lane, steps := range c.plans[rank].Lanes {
		for i := range steps {
			all = c.layouts[rank].touch(all, &steps[i], rank, lane, i)
		}
	}
	c.touched = all
	return all
}

// touch appends what one step reads and writes. A copy onto itself writes nothing.
func (l *layout) touch(all []access, s *Step, rank, lane, step int) []access {
	src, dst, acc := l.at(s.Src), l.at(s.Dst), l.at(s.Acc)
	write := !s.Local(rank) || s.Reduce || src != dst
	add := func(span Span, write bool) {
		if span.Len > 0 {
			all = append(all, access{span, int32(lane), int32(step), write})
		}
	}
	add(src, false)
	add(acc, false)
	add(dst, write)
	return all
}

func verb(write bool) string {
	if write {
		return "writes"
	}
	return "reads"
}
