package plan

import "fmt"

// Shape is all that a plan depends on.
//
// For all_reduce, broadcast, reduce, send and recv, Count is the number of elements of the whole tensor. For the others it
// is the number of elements of one rank's part. That is the input of all_gather, the output of reduce_scatter, and the block
// for each peer of all_to_all. Uneven collectives give Counts in its place. For all_gather, reduce_scatter, gather and
// scatter it holds the part of each rank. For all_to_all, Counts holds what this rank sends to each rank, and RecvCounts
// what it receives from each.
type Shape struct {
	Coll       Coll
	Rank, Size int
	Root       int // broadcast, reduce, gather, scatter; the peer of send and recv
	Count      int
	Elem       int // bytes of one element
	Lanes      int // lanes to spread over; 0 means 1
	Chunk      int // elements of one chunk at most; 0 leaves it to the planner
	Counts     []int
	RecvCounts []int
}

// String names the collective, such as "all_reduce".
func (c Coll) String() string {
	if c == 0 || c >= numColls {
		return fmt.Sprintf("coll(%d)", uint8(c))
	}
	return collNames[c]
}

// ParseColl reads a name that String prints.
func ParseColl(s string) (Coll, error) {
	for c := AllReduce; c < numColls; c++ {
		if collNames[c] == s {
			return c, nil
		}
	}
	return 0, fmt.Errorf("plan: unknown collective %q", s)
}

// Validate says what is wrong with a shape, nil if nothing is.
func (s Shape) Validate() error {
	switch {
	case s.Coll == 0 || s.Coll >= numColls:
		return fmt.Errorf("plan: %v", s.Coll)
	case s.Size < 1 || s.Rank < 0 || s.Rank >= s.Size:
		return fmt.Errorf("plan: %v: rank %d of %d", s.Coll, s.Rank, s.Size)
	case s.Root < 0 || s.Root >= s.Size:
		return fmt.Errorf("plan: %v: root %d of %d ranks", s.Coll, s.Root, s.Size)
	case s.Count < 0 || s.Elem < 1 || s.Lanes < 0 || s.Chunk < 0:
		return fmt.Errorf("plan: %v: count %d, element size %d, lanes %d, chunk %d", s.Coll, s.Count, s.Elem, s.Lanes, s.Chunk)
	}
	for _, counts := range [][]int{s.Counts, s.RecvCounts} {
		if counts != nil && len(counts) != s.Size {
			return fmt.Errorf("plan: %v: %d counts for %d ranks", s.Coll, len(counts), s.Size)
		}
		for r, n := range counts {
			if n < 0 {
				return fmt.Errorf("plan: %v: count %d of rank %d", s.Coll, n, r)
			}
		}
	}
	if (s.Counts != nil || s.RecvCounts != nil) && !s.Coll.parted() || (s.RecvCounts != nil) != (s.Counts != nil && s.Coll == AllToAll) {
		return fmt.Errorf("plan: %v takes no such counts by rank", s.Coll)
	}
	return nil
}

// parted reports whether the collective cuts a tensor into a part for each rank.
func (c Coll) parted() bool {
	switch c {
	case AllGather, ReduceScatter, AllToAll, Gather, Scatter:
		return true
	}
	return false
}

// Reduces reports whether the collective combines elements.
func (c Coll) Reduces() bool { return c == AllReduce || c == Reduce || c == ReduceScatter }

// InPlace reports whether the collective has a form with In and Out in the same memory.
func (c Coll) InPlace() bool {
	switch c {
	case AllReduce, Reduce, AllGather, Gather, ReduceScatter, Scatter:
		return true
	}
	return false
}

// Rooted reports whether one rank has a part of its own in the collective.
func (c Coll) Rooted() bool { return c == Broadcast || c == Reduce || c == Gather || c == Scatter }

// PartLen returns the elements of rank r's part (for all_to_all, of what this rank sends to r).
func (s Shape) PartLen(r int) int {
	if s.Counts == nil {
		return s.Count
	}
	return s.Counts[r]
}

// RecvLen returns the elements that this rank receives from rank r in an all_to_all.
func (s Shape) RecvLen(r int) int {
	if s.RecvCounts == nil {
		return s.Count
	}
	return s.RecvCounts[r]
}

// PartOff returns where rank r's part begins in the tensor that holds all parts; PartOff(Size) is its length.
func (s Shape) PartOff(r int) int { return offset(s.Counts, s.Count, r) }

// RecvOff returns where what comes from rank r begins in the output of an all_to_all; RecvOff(Size) is its length.
func (s Shape) RecvOff(r int) int { return offset(s.RecvCounts, s.Count, r) }

func offset(counts []int, count, r int) int {
	if counts == nil {
		return r * count
	}
	n := 0
	for _, c := range counts[:r] {
		n += c
	}
	return n
}

// PartSpan returns rank r's part of the buffer b that holds all parts.
func (s Shape) PartSpan(b Buf, r int) Span { return Span{b, s.PartOff(r), s.PartLen(r)} }

// Len returns the elements of this rank's input or output buffer.
//
//	             In                       Out
//	all_reduce   Count                    Count
//	broadcast    Count at the root        Count elsewhere
//	reduce       Count                    Count at the root
//	all_gather   this rank's part         all parts
//	reduce_scat. all parts                this rank's part
//	all_to_all   what goes to all ranks   what comes from all ranks
//	gather       this rank's part         all parts at the root
//	scatter      all parts at the root    this rank's part
//	send         Count                    -
//	recv         -                        Count
func (s Shape) Len(b Buf) int {
	in, out := 0, 0
	switch own, all, root := s.Count, s.PartOff(s.Size), s.Rank == s.Root; s.Coll {
	case AllReduce:
		in, out = own, own
	case Broadcast:
		in, out = own*btoi(root), own*btoi(!root)
	case Reduce:
		in, out = own, own*btoi(root)
	case AllGather:
		in, out = s.PartLen(s.Rank), all
	case ReduceScatter:
		in, out = all, s.PartLen(s.Rank)
	case AllToAll:
		in, out = all, s.RecvOff(s.Size)
	case Gather:
		in, out = s.PartLen(s.Rank), all*btoi(root)
	case Scatter:
		in, out = all*btoi(root), s.PartLen(s.Rank)
	case Send:
		in = own
	case Recv:
		out = own
	}
	if b == In {
		return in
	}
	return out
}

// LaneCount returns the number of lanes, at least 1.
func (s Shape) LaneCount() int { return max(s.Lanes, 1) }

// ChunkLen returns the elements of a chunk: Chunk if set, else as many as fit into limit bytes, at least 1.
func (s Shape) ChunkLen(limit int) int {
	if s.Chunk > 0 {
		return s.Chunk
	}
	return max(limit/s.Elem, 1)
}
