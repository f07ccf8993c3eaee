package tree

import (
	"slices"

	"github.com/colligo-go/colligo/plan"
)

// BinomialBroadcast plans a broadcast over a binomial tree, in chunks that follow one another.
//
//	rounds   lg n with one chunk; lg n more, at most, with each further chunk
//	bytes    the root sends S lg n, others up to S (lg n - 1); every rank but the root receives S
//	scratch  none
func BinomialBroadcast(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("binomial", plan.Broadcast, s)
	if done || err != nil {
		return p, err
	}
	t := binomial(relative(s), s.Size).ranked(s.Root, s.Size)
	slices.Reverse(t.children) // the largest subtree first: it has the longest way to go
	spread(p, s.LaneCount(), func(_ int, part plan.Span) []plan.Step {
		return pipeDown(t, part, s.ChunkLen(pipeBytes))
	})
	return p, nil
}

// BinomialReduce plans a reduction to the root over a binomial tree, in chunks that follow one another.
//
//	rounds   lg n with one chunk; lg n more, at most, with each further chunk
//	bytes    the root receives S lg n, others up to S (lg n - 1); every rank but the root sends S
//	scratch  two chunks for each lane, at most the part of the lane, on ranks that have children and are not the root
//	order    with ranks counted from the root: own input, then the children's sums, the nearest child first; for
//	         n = 8: ((0+1) + (2+3)) + ((4+5) + (6+7))
func BinomialReduce(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("binomial", plan.Reduce, s)
	if done || err != nil {
		return p, err
	}
	t := binomial(relative(s), s.Size).ranked(s.Root, s.Size)
	chunk := s.ChunkLen(pipeBytes)
	spread(p, s.LaneCount(), func(_ int, part plan.Span) []plan.Step {
		base := p.Scratch
		p.Scratch += upScratch(t, part, chunk)
		return pipeUp(t, part, chunk, base)
	})
	return p, nil
}

// BinomialGather plans a gather of even or uneven parts over a binomial tree. Each rank packs its subtree's parts, in the
// order of ranks from the root, and sends them to its parent at once. The root receives them straight into place; where
// they go round the end of the tensor they come as two frames.
//
//	rounds   lg n, at most one more for the parts that go round the end
//	bytes    the root receives what is not its own part; others send what their subtree holds, up to half of the ranks' parts
//	scratch  the parts of the rank's subtree on ranks that have children and are not the root
//	lanes    one
func BinomialGather(s plan.Shape) (*plan.Plan, error) {
	return gather("binomial", plan.Gather, s, binomial)
}

// BinomialScatter plans a scatter of even or uneven parts: BinomialGather backwards in time, with the same costs.
//
//	rounds   lg n, at most one more for the parts that go round the end
//	bytes    the root sends what is not its own part; others receive what their subtree holds, up to half of the ranks' parts
//	scratch  the parts of the rank's subtree on ranks that have children and are not the root
//	lanes    one
func BinomialScatter(s plan.Shape) (*plan.Plan, error) {
	return scatter("binomial", s, binomial)
}

// relative returns the shape's rank counted from the root.
func relative(s plan.Shape) int { return (s.Rank - s.Root + s.Size) % s.Size }
