package tree

import "github.com/colligo-go/colligo/plan"

// CirculantAllReduce plans an all-reduce as a reduce-scatter of equal parts and an all-gather, both on a circulant graph
// (Träff 2024, see halve.go). It moves the fewest bytes for any size, where HalvingDoublingAllReduce does so for powers of
// two only, in as many rounds. But parts that go round the end of the tensor take a second message. For other sizes this
// happens to one rank or another in most rounds.
//
//	rounds   2 lg n if n is a power of two, else at most 4 lg n - 2; times the chunks of each round's piece
//	bytes    2S (n-1)/n sent and received, the least that any algorithm needs
//	scratch  none
//	order    that of HalvingReduceScatter
func CirculantAllReduce(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("circulant", plan.AllReduce, s)
	if done || err != nil {
		return p, err
	}
	spread(p, s.LaneCount(), func(_ int, part plan.Span) []plan.Step {
		h := halver{parts: cut(part, s.Size), rank: s.Rank, chunk: s.ChunkLen(frameBytes), rounds: halvings(s.Rank, s.Size), sums: plan.Out}
		h.out = h.parts.at(plan.Out, s.Rank)
		return append(h.reduceScatter(), h.allGather()...)
	})
	return p, nil
}
