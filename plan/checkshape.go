package plan

import (
	"fmt"
	"slices"
)

// checkShapes checks that every rank has a plan for the same collective.
func checkShapes(plans []*Plan) error {
	if len(plans) == 0 {
		return fmt.Errorf("plan: no plans to check")
	}
	first := slices.IndexFunc(plans, func(p *Plan) bool { return p != nil })
	for r, p := range plans {
		if p == nil && (first < 0 || !plans[first].Shape.Coll.pair()) {
			return fmt.Errorf("plan: rank %d of %d has no plan", r, len(plans))
		}
		if p == nil {
			continue
		}
		if err := checkShape(plans, r, first); err != nil {
			return err
		}
	}
	return nil
}

func (c Coll) pair() bool { return c == Send || c == Recv }

// checkShape checks rank r's shape alone and against that of the first rank that has a plan.
func checkShape(plans []*Plan, r, first int) error {
	p, q := plans[r], plans[first]
	s, f := p.Shape, q.Shape
	if err := s.Validate(); err != nil {
		return fmt.Errorf("%w (rank %d)", err, r)
	}
	differ := func(what string, ours, theirs any) error {
		return fmt.Errorf("plan: %v %s: rank %d has %s %v, rank %d has %v", s.Coll, p.Algo, r, what, ours, first, theirs)
	}
	switch {
	case s.Rank != r || s.Size != len(plans):
		return fmt.Errorf("plan: %v %s: rank %d of %d has the plan of rank %d of %d", s.Coll, p.Algo, r, len(plans), s.Rank, s.Size)
	case p.Scratch < 0 || len(p.Lanes) > s.LaneCount():
		return fmt.Errorf("plan: %v %s: rank %d: %d elements of scratch, %d lanes of %d", s.Coll, p.Algo, r, p.Scratch, len(p.Lanes), s.LaneCount())
	case p.Starts && s.Coll != Barrier:
		return fmt.Errorf("plan: %v %s: rank %d: starts is for barriers", s.Coll, p.Algo, r)
	case s.Coll != f.Coll && !(s.Coll.pair() && f.Coll.pair()):
		return differ("collective", s.Coll, f.Coll)
	case p.Algo != q.Algo:
		return differ("algorithm", p.Algo, q.Algo)
	case s.Elem != f.Elem:
		return differ("element size", s.Elem, f.Elem)
	case s.LaneCount() != f.LaneCount():
		return differ("lanes", s.LaneCount(), f.LaneCount())
	case s.Chunk != f.Chunk:
		return differ("chunk", s.Chunk, f.Chunk)
	case s.Coll.pair():
		return checkPair(plans, r)
	case s.Coll.Rooted() && s.Root != f.Root:
		return differ("root", s.Root, f.Root)
	case (s.Counts == nil) != (f.Counts == nil) || s.Coll != AllToAll && !slices.Equal(s.Counts, f.Counts):
		return differ("counts", s.Counts, f.Counts)
	case s.Counts == nil && s.Count != f.Count:
		return differ("count", s.Count, f.Count)
	}
	return checkRecvCounts(plans, r)
}

// checkPair checks that a sender and its receiver name each other.
func checkPair(plans []*Plan, r int) error {
	s := plans[r].Shape
	other := plans[s.Root]
	switch {
	case s.Root == r:
		return fmt.Errorf("plan: rank %d has %v with itself", r, s.Coll)
	case other == nil || other.Shape.Root != r || other.Shape.Coll == s.Coll:
		return fmt.Errorf("plan: rank %d has %v with rank %d, which has no match for it", r, s.Coll, s.Root)
	case other.Shape.Count != s.Count:
		return fmt.Errorf("plan: rank %d has %v of %d elements with rank %d, which has %v of %d", r, s.Coll, s.Count, s.Root, other.Shape.Coll, other.Shape.Count)
	}
	return nil
}

// checkRecvCounts checks that rank r of an all_to_all expects what the others send.
func checkRecvCounts(plans []*Plan, r int) error {
	for from, n := range plans[r].Shape.RecvCounts {
		if q := plans[from]; q != nil && r < len(q.Shape.Counts) && q.Shape.Counts[r] != n {
			return fmt.Errorf("plan: all_to_all %s: rank %d sends %d elements to rank %d, which expects %d", plans[r].Algo, from, q.Shape.Counts[r], r, n)
		}
	}
	return nil
}
