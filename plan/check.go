package plan

import "fmt"

// Check executes the plans of all ranks symbolically (plans[r] is rank r's) and returns the first fault found, nil if
// there is none. It proves, for the shape given:
//
//   - the ranks agree about the shape, and every span lies inside its buffer; In is never written
//   - every send meets its receive with equal length, nothing is left over, and no lane waits for ever under the
//     exchange rule (invariant 2)
//   - no step reads elements that nothing has written, or writes what the same step reads (invariant 5)
//   - no lane of a rank touches what another lane of that rank writes
//   - every element of every Out is what the collective says. A reduction holds each rank's input once, and one Last
//     finishes it (invariant 6; not asked of a single rank). It comes from the same tree everywhere (invariant 7)
//   - in a barrier, word of every rank's start has reached each rank before its end
//
// Plans of send and recv are checked together, with nil for ranks that take no part. Time and memory grow with the
// number of steps and of different spans, not of elements. Trees are compared by 64-bit hashes.
func Check(plans []*Plan) error { return check(plans, false) }

// CheckInPlace checks plans whose In and Out are the same memory. For all_reduce, and at the root of reduce, that is all of
// Out. For all_gather, reduce_scatter, and at the root of gather and scatter, it is the rank's own part. Writing Out then
// changes In. Other collectives have no form in place and are checked as by Check.
func CheckInPlace(plans []*Plan) error { return check(plans, true) }

func check(plans []*Plan, inPlace bool) error {
	if err := checkShapes(plans); err != nil {
		return err
	}
	c := newChecker(plans, inPlace)
	for r, p := range plans {
		if p == nil {
			continue
		}
		if err := c.checkRank(r); err != nil {
			return err
		}
	}
	if err := c.run(); err != nil {
		return err
	}
	return c.checkResults()
}

// checker is the state of one symbolic execution: the memory of all ranks and where each lane stands.
type checker struct {
	plans   []*Plan
	size    int
	full    uint64 // sum of the marks of all ranks' inputs
	layouts []layout
	mem     [][3]memory // of each rank; an aliased buffer leaves its own memory unused
	lanes   int
	cursors []cursor   // of rank r, lane l at r*lanes+l
	pieces  [3][]piece // room for what arrives, for the operand, and for the result of a step
	touched []access   // room for the accesses of one rank, and for where they begin
	starts  []start
}

// place is where a buffer lies: in which memory of its rank, and from which element on.
type place struct {
	buf   Buf
	delta int
}

// layout holds the length and place of each buffer of one rank.
type layout struct {
	len   [3]int
	place [3]place
}

func newChecker(plans []*Plan, inPlace bool) *checker {
	n := len(plans)
	c := &checker{plans: plans, size: n, layouts: make([]layout, n), mem: make([][3]memory, n)}
	for r, p := range plans {
		c.full += mark(r)
		if p == nil {
			continue
		}
		l := newLayout(p, inPlace)
		c.layouts[r] = l
		for b := In; b <= Scratch; b++ {
			c.mem[r][b] = newMemory(l.len[b])
		}
		in := l.place[In]
		c.mem[r][in.buf].write(in.delta, []piece{{l.len[In], value{leaf(r), 0}}})
		c.lanes = max(c.lanes, len(p.Lanes))
	}
	c.cursors = newCursors(plans, c.lanes)
	return c
}

func newLayout(p *Plan, inPlace bool) layout {
	s := p.Shape
	l := layout{len: [3]int{s.Len(In), s.Len(Out), p.Scratch}}
	l.place = [3]place{{In, 0}, {Out, 0}, {Scratch, 0}}
	if !inPlace || !s.Coll.InPlace() || s.Coll.Rooted() && s.Rank != s.Root {
		return l
	}
	switch s.Coll {
	case AllReduce, Reduce:
		l.place[In] = place{Out, 0}
	case AllGather, Gather:
		l.place[In] = place{Out, s.PartOff(s.Rank)}
	case ReduceScatter, Scatter:
		l.place[Out] = place{In, s.PartOff(s.Rank)}
	}
	return l
}

// at returns a span's memory and the range of it there.
func (l *layout) at(s Span) Span {
	p := l.place[s.Buf]
	return Span{p.buf, s.Off + p.delta, s.Len}
}

// fault is an error about a step: it names rank, lane and step.
func (c *checker) fault(rank, lane, step int, format string, args ...any) error {
	p := c.plans[rank]
	return fmt.Errorf("plan: %v %s: rank %d lane %d step %d: %s", p.Shape.Coll, p.Algo, rank, lane, step, fmt.Sprintf(format, args...))
}
