package tree

import "github.com/colligo-go/colligo/plan"

// Direct plans are for the smallest messages: each travels once, from the rank that has it to the rank that needs it.
// Reductions are in the order of ranks: ((0+1)+2)+…

// DirectAllReduce plans an all-reduce in which every rank sends its input to all others and reduces what it gets.
//
//	rounds   n-1 for each chunk, which wait only for the peers to begin, and n-1 local reductions
//	bytes    S (n-1) sent and received
//	scratch  S (n-1)
//	order    ((0+1)+2)+…
func DirectAllReduce(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("direct", plan.AllReduce, s)
	if done || err != nil {
		return p, err
	}
	p.Scratch = (s.Size - 1) * s.Count
	chunk := s.ChunkLen(frameBytes)
	spread(p, s.LaneCount(), func(_ int, part plan.Span) (steps []plan.Step) {
		for i := 0; i*chunk < part.Len; i++ {
			own := nth(part, chunk, i)
			slot := func(k int) plan.Span { return own.In(plan.Scratch, others(s.Rank, k)*s.Count) }
			steps = append(steps, swap(s, func(int) plan.Span { return own }, slot, chunk)...)
			steps = append(steps, inRankOrder(s, own, own.In(plan.Out, 0), slot(0), localValue(s, slot))...)
		}
		return steps
	})
	return p, nil
}

// DirectReduceScatter plans a reduce-scatter of even or uneven parts. Every rank sends the others their parts, and reduces
// what it gets of its own.
//
//	rounds   n-1, times the chunks of a part, which wait only for the peers to begin, and n-1 local reductions
//	bytes    S (n-1)/n sent and received with even parts
//	scratch  the rank's part n-1 times
//	order    ((0+1)+2)+…
//	lanes    one
func DirectReduceScatter(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("direct", plan.ReduceScatter, s)
	if done || err != nil {
		return p, err
	}
	parts := partsOf(s)
	own := parts.at(plan.In, s.Rank)
	p.Scratch = (s.Size - 1) * own.Len
	slot := func(k int) plan.Span {
		return plan.Span{Buf: plan.Scratch, Off: others(s.Rank, k) * own.Len, Len: own.Len}
	}
	p.Lanes[0] = swap(s, func(k int) plan.Span { return parts.at(plan.In, k) }, slot, s.ChunkLen(frameBytes))
	if own.Len > 0 {
		p.Lanes[0] = append(p.Lanes[0], inRankOrder(s, own, plan.Span{Buf: plan.Out, Len: own.Len}, slot(0), localValue(s, slot))...)
	}
	return p, nil
}

// DirectAllGather plans an all-gather of even or uneven parts in which every rank sends its part to all others.
//
//	rounds   n-1, times the chunks of a part, which wait only for the peers to begin
//	bytes    S (n-1)/n sent and received with even parts
//	scratch  none
//	lanes    one
func DirectAllGather(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("direct", plan.AllGather, s)
	if done || err != nil {
		return p, err
	}
	parts := partsOf(s)
	own := plan.Span{Buf: plan.In, Len: s.PartLen(s.Rank)}
	p.Lanes[0] = swap(s, func(int) plan.Span { return own }, func(k int) plan.Span { return parts.at(plan.Out, k) }, s.ChunkLen(frameBytes))
	p.Lanes[0] = append(p.Lanes[0], copies(s.Rank, parts.at(plan.Out, s.Rank), own)...)
	return p, nil
}

// DirectBroadcast plans a broadcast in which the root sends to all others, one after the other.
//
//	rounds   n-1 for each chunk
//	bytes    the root sends S (n-1)
//	scratch  none
func DirectBroadcast(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("direct", plan.Broadcast, s)
	if done || err != nil {
		return p, err
	}
	t := flat(relative(s), s.Size).ranked(s.Root, s.Size)
	spread(p, s.LaneCount(), func(_ int, part plan.Span) []plan.Step {
		return pipeDown(t, part, s.ChunkLen(frameBytes))
	})
	return p, nil
}

// DirectReduce plans a reduction in which the root receives from all others, in the order of ranks.
//
//	rounds   n-1 for each chunk, and a local reduction if the root is not rank 0 or 1
//	bytes    the root receives S (n-1)
//	scratch  one chunk for each lane at the root if that is not rank 0 or 1
//	order    ((0+1)+2)+…
func DirectReduce(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("direct", plan.Reduce, s)
	if done || err != nil {
		return p, err
	}
	chunk := s.ChunkLen(frameBytes)
	spread(p, s.LaneCount(), func(_ int, part plan.Span) (steps []plan.Step) {
		if s.Rank != s.Root {
			return sends(s.Root, chunk, part)
		}
		partial := plan.Span{Buf: plan.Scratch, Off: p.Scratch}
		if s.Root > 1 {
			p.Scratch += min(chunk, part.Len)
		}
		for i := 0; i*chunk < part.Len; i++ {
			own := nth(part, chunk, i)
			partial.Len = own.Len
			value := func(k int) plan.Step { return plan.RecvFrom(k, plan.Span{}) }
			steps = append(steps, inRankOrder(s, own, own.In(plan.Out, 0), partial, value)...)
		}
		return steps
	})
	return p, nil
}

// DirectGather plans a gather of even or uneven parts in which the root receives from all others.
//
//	rounds   n-1, times the chunks of a part
//	bytes    the root receives what is not its own part
//	scratch  none
//	lanes    one
func DirectGather(s plan.Shape) (*plan.Plan, error) {
	return gather("direct", plan.Gather, s, flat)
}

// DirectScatter plans a scatter of even or uneven parts in which the root sends to all others.
//
//	rounds   n-1, times the chunks of a part
//	bytes    the root sends what is not its own part
//	scratch  none
//	lanes    one
func DirectScatter(s plan.Shape) (*plan.Plan, error) {
	return scatter("direct", s, flat)
}

// DirectBarrier plans a barrier in which every rank sends an empty frame to all others, and receives one from each.
//
//	rounds   n-1, which wait only for the peers to begin
//	bytes    none; n-1 frames sent and received
//	lanes    one
func DirectBarrier(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("direct", plan.Barrier, s)
	if done || err != nil {
		return p, err
	}
	p.Starts = true
	for d := 1; d < s.Size; d++ {
		p.Lanes[0] = append(p.Lanes[0], plan.Step{To: (s.Rank + d) % s.Size, From: (s.Rank + s.Size - d) % s.Size})
	}
	return p, nil
}
