package tree

import "github.com/colligo-go/colligo/plan"

// DoublingAllGather plans an all-gather of even or uneven parts: recursive doubling for powers of two, the circulant graph
// for other sizes (see halve.go). The latter is close to the algorithm of Bruck and others (1997), but puts parts in place
// at once. The price is a second message for parts that go round the end of the tensor.
//
//	rounds   lg n if n is a power of two, else at most 2 lg n - 1; times the chunks of each round's piece
//	bytes    S (n-1)/n sent and received with even parts
//	scratch  none
//	lanes    one
func DoublingAllGather(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("doubling", plan.AllGather, s)
	if done || err != nil {
		return p, err
	}
	h := halver{parts: partsOf(s), rank: s.Rank, chunk: s.ChunkLen(frameBytes), rounds: halvings(s.Rank, s.Size)}
	own := copies(s.Rank, h.parts.at(plan.Out, s.Rank), plan.Span{Buf: plan.In, Len: s.PartLen(s.Rank)})
	p.Lanes[0] = append(own, h.allGather()...)
	return p, nil
}
