package plan

import "fmt"

// wanted says what a range of Out must hold: elements first, first+1, … of one rank's input, or of their reduction.
type wanted struct {
	len, first int
	rank       int // None for the reduction of all
}

// checkResults compares every rank's output with what the collective promises.
func (c *checker) checkResults() error {
	agreed := memory{}
	for r, p := range c.plans {
		if p == nil {
			continue
		}
		if err := c.checkBarrier(r); err != nil {
			return err
		}
		if r == 0 && p.Shape.Coll == AllReduce {
			agreed = newMemory(p.Shape.Count)
		}
		off := 0
		for _, w := range c.wanted(r) {
			if err := c.checkRange(r, off, w, &agreed); err != nil {
				return err
			}
			off += w.len
		}
	}
	return nil
}

// wanted lists what rank r's Out must hold, from its begin to its end.
func (c *checker) wanted(r int) []wanted {
	s := c.plans[r].Shape
	n := c.layouts[r].len[Out]
	if n == 0 {
		return nil
	}
	switch s.Coll {
	case AllReduce, Reduce:
		return []wanted{{n, 0, None}}
	case ReduceScatter:
		return []wanted{{n, s.PartOff(r), None}}
	case Broadcast, Recv:
		return []wanted{{n, 0, s.Root}}
	case Scatter:
		return []wanted{{n, s.PartOff(r), s.Root}}
	case AllGather, Gather:
		all := make([]wanted, s.Size)
		for i := range all {
			all[i] = wanted{s.PartLen(i), 0, i}
		}
		return all
	case AllToAll:
		all := make([]wanted, s.Size)
		for i := range all {
			all[i] = wanted{s.RecvLen(i), c.plans[i].Shape.PartOff(r), i}
		}
		return all
	}
	return nil
}

// checkRange checks what rank r's Out holds from off on. It keeps its trees as the ones agreed on, or compares them with
// those.
func (c *checker) checkRange(r, off int, w wanted, agreed *memory) error {
	at := c.layouts[r].at(Span{Out, off, w.len})
	for _, p := range c.mem[r][at.Buf].read(nil, at.Off, at.Len) {
		what := c.checkValue(p.val, w)
		if what == "" && agreed.len > 0 {
			what = agree(agreed, w.first, p)
		}
		if what != "" {
			plan := c.plans[r]
			return fmt.Errorf("plan: %v %s: rank %d: result %v %s", plan.Shape.Coll, plan.Algo, r, Span{Out, off, p.len}, what)
		}
		off += p.len
		w.first += p.len
	}
	return nil
}

// checkValue says what is wrong with a value, nothing if it is the one wanted.
func (c *checker) checkValue(v value, w wanted) string {
	t := v.tree
	switch {
	case t == nil:
		return "is never written"
	case w.rank != None && (t.left != nil || t.rank != w.rank):
		return sprint("is %v, want the input of rank %d", v, w.rank)
	case w.rank == None && (t.inputs != c.size || t.set != c.full):
		return c.describe(t)
	case w.rank == None && c.size > 1 && !t.done:
		return "is finished by no step marked Last"
	case v.first != w.first:
		return sprint("begins with element %d of the input of rank %d, want element %d", v.first, max(w.rank, t.rank), w.first)
	}
	return ""
}

// String describes a value for an error.
func (v value) String() string {
	if v.tree.left != nil {
		return sprint("a reduction of %d inputs", v.tree.inputs)
	}
	return sprint("the input of rank %d from element %d on", v.tree.rank, v.first)
}

// agree compares the trees of a result with those of the ranks before, and keeps those of the first.
func agree(agreed *memory, first int, p piece) string {
	off := first
	for _, q := range agreed.read(nil, first, p.len) {
		if q.val.tree == nil {
			agreed.write(off, []piece{{q.len, p.val.skip(off - first)}})
		} else if q.val.tree.form != p.val.tree.form {
			return sprint("is reduced in another order than on rank 0 from element %d on", off)
		}
		off += q.len
	}
	return ""
}

// checkBarrier checks that rank r has heard of all ranks.
func (c *checker) checkBarrier(r int) error {
	p := c.plans[r]
	if p.Shape.Coll != Barrier {
		return nil
	}
	for peer := range c.size {
		heard := peer == r
		for lane := range c.lanes {
			heard = heard || c.cursor(r, lane).known[peer/64]>>(peer%64)&1 == 1
		}
		if !heard {
			return fmt.Errorf("plan: barrier %s: rank %d ends and need not have heard of rank %d", p.Algo, r, peer)
		}
	}
	return nil
}
