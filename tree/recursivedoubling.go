package tree

import "github.com/colligo-go/colligo/plan"

// RecursiveDoublingAllReduce plans an all-reduce in which pairs of ranks exchange all that they have, over distances that double. (Thakur and
// others describe it in "Optimization of Collective Communication Operations in MPICH", 2005.) It is for small messages, whose time is that of
// the rounds. With p the largest power of two not above n, the ranks below 2(n-p) are folded into pairs first. The even rank takes the input
// of the odd one, and sends it the result in the end.
//
//	rounds   lg n if n is a power of two, else lg p + 2; times the chunks of the tensor
//	bytes    S lg p sent and received; the even ranks of pairs S more, the odd ones S in all
//	scratch  S
//	order    pairs first, then pairs and ranks without one in their order, by bits of their place in it, lowest bit first;
//	         for n = 4: (0+1) + (2+3), for n = 6: ((0+1) + (2+3)) + (4+5). All ranks have the same operands in the same order,
//	         and so the same of two NaNs
func RecursiveDoublingAllReduce(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("recursive_doubling", plan.AllReduce, s)
	if done || err != nil {
		return p, err
	}
	p.Scratch = s.Count
	f := fold(s)
	spread(p, s.LaneCount(), func(_ int, part plan.Span) []plan.Step { return f.doubling(part) })
	return p, nil
}

// doubling returns the steps of recursive doubling for one part of the tensor.
func (f folding) doubling(part plan.Span) (steps []plan.Step) {
	out, v := part.In(plan.Out, 0), f.rank-f.pairs
	held := part
	switch {
	case f.rank >= 2*f.pairs:
	case f.rank%2 == 1:
		return append(sends(f.rank-1, f.chunk, part), recvs(f.rank-1, f.chunk, out)...)
	default:
		steps = sums(f.rank+1, f.chunk, out, part, false)
		held, v = out, f.rank/2
	}
	for bit := 1; bit < f.power; bit *= 2 {
		peer := v ^ bit
		peer += min(peer, f.pairs)
		theirs := part.In(plan.Scratch, 0)
		steps = append(steps, exchange(sends(peer, f.chunk, held), recvs(peer, f.chunk, theirs))...)
		low, high := held, theirs
		if v&bit != 0 {
			low, high = theirs, held
		}
		if part.Len > 0 {
			steps = append(steps, plan.Step{To: plan.None, From: f.rank, Src: high, Dst: out, Acc: low, Reduce: true, Last: 2*bit == f.power})
		}
		held = out
	}
	if f.rank < 2*f.pairs {
		steps = append(steps, sends(f.rank+1, f.chunk, out)...)
	}
	return steps
}
