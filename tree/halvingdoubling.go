package tree

import (
	"math/bits"

	"github.com/colligo-go/colligo/plan"
)

// HalvingDoublingAllReduce plans an all-reduce by recursive vector halving and distance doubling, then back (Rabenseifner,
// "Optimization of Collective Reduction Operations", ICCS 2004). With p the largest power of two not above n, the ranks
// below 2(n-p) are folded into pairs first. Each rank of a pair reduces one half. The even rank gets both halves, goes on
// for the two, and sends the odd rank the result in the end.
//
//	rounds   2 lg n if n is a power of two, else 2 lg p + 3; times the chunks of each round's piece
//	bytes    2S (p-1)/p sent and received; the even ranks of pairs send 1.5 S and receive S more, the odd ones send S and
//	         receive 1.5 S in all
//	scratch  none
//	order    pairs first, then pairs and ranks without one in their order, by bits of their place in it, lowest bit first;
//	         for n = 4: (0+1) + (2+3), for n = 6: ((0+1) + (2+3)) + (4+5)
//
// Piece of the tensor that a rank goes on with, n = 4:
//
//	rank 0   ■■■■  ■■··  ■···  ■■··  ■■■■
//	rank 1   ■■■■  ··■■  ··■·  ··■■  ■■■■
//	rank 2   ■■■■  ■■··  ·■··  ■■··  ■■■■
//	rank 3   ■■■■  ··■■  ···■  ··■■  ■■■■
//	            bit 0  bit 1  bit 1  bit 0
func HalvingDoublingAllReduce(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("halving_doubling", plan.AllReduce, s)
	if done || err != nil {
		return p, err
	}
	h := fold(s)
	spread(p, s.LaneCount(), func(_ int, part plan.Span) []plan.Step { return h.steps(part) })
	return p, nil
}

// folding is one rank's view of the all-reduce.
type folding struct {
	rank, chunk  int
	power, pairs int // ranks that take part after folding; the first of them that stand for a pair
}

// fold returns this rank's view.
func fold(s plan.Shape) folding {
	power := 1 << (bits.Len(uint(s.Size)) - 1)
	return folding{rank: s.Rank, chunk: s.ChunkLen(frameBytes), power: power, pairs: s.Size - power}
}

// steps returns the steps for one part of the tensor.
func (h folding) steps(part plan.Span) []plan.Step {
	if h.rank >= 2*h.pairs {
		return h.core(part, h.rank-h.pairs)
	}
	out := part.In(plan.Out, 0)
	low, high := halves(part)
	if h.rank%2 == 1 {
		steps := exchange(sends(h.rank-1, h.chunk, low), sums(h.rank-1, h.chunk, high.In(plan.Out, 0), high, false))
		steps = append(steps, sends(h.rank-1, h.chunk, high.In(plan.Out, 0))...)
		return append(steps, recvs(h.rank-1, h.chunk, out)...)
	}
	steps := exchange(sends(h.rank+1, h.chunk, high), sums(h.rank+1, h.chunk, low.In(plan.Out, 0), low, false))
	steps = append(steps, recvs(h.rank+1, h.chunk, high.In(plan.Out, 0))...)
	steps = append(steps, h.core(out, h.rank/2)...)
	return append(steps, sends(h.rank+1, h.chunk, out)...)
}

// core returns the steps among the ranks that are left after folding, of which this one is number v. It begins with the span
// held: its input, or the pair's sum in Out.
func (h folding) core(held plan.Span, v int) (steps []plan.Step) {
	var back []plan.Step
	for bit := 1; bit < h.power; bit *= 2 {
		keep, give := halves(held)
		if v&bit != 0 {
			keep, give = give, keep
		}
		peer := v ^ bit
		peer += min(peer, h.pairs)
		sum := keep.In(plan.Out, 0)
		steps = append(steps, exchange(sends(peer, h.chunk, give), sums(peer, h.chunk, sum, keep, 2*bit == h.power))...)
		back = append(exchange(sends(peer, h.chunk, sum), recvs(peer, h.chunk, give.In(plan.Out, 0))), back...)
		held = sum
	}
	return append(steps, back...)
}

// halves cuts a span in two, the second longer by one if it is odd.
func halves(s plan.Span) (low, high plan.Span) {
	return sub(s, 0, s.Len/2), sub(s, s.Len/2, s.Len)
}
