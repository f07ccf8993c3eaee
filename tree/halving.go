package tree

import "github.com/colligo-go/colligo/plan"

// HalvingReduceScatter plans a reduce-scatter of even or uneven parts: recursive halving for powers of two, the circulant
// graph for other sizes (see halve.go).
//
//	rounds   lg n if n is a power of two, else at most one more, for parts that go round the end in the first round; times
//	         the chunks of each round's piece
//	bytes    S (n-1)/n sent and received with even parts
//	scratch  ⌈n/2⌉ parts; none for two ranks
//	order    by bits of the rank, highest first, if n is a power of two; for n = 4: (0+2) + (1+3). Else with skips
//	         n = s0 > s1 > … > 1, each half of the one before rounded up, round k makes rank r's sum of each of the parts
//	         r … r + s(k-1) - sk - 1 its own before plus that of rank r - sk; for n = 3 and part 0: (0+1) + 2
//	lanes    one
func HalvingReduceScatter(s plan.Shape) (*plan.Plan, error) {
	p, done, err := begin("halving", plan.ReduceScatter, s)
	if done || err != nil {
		return p, err
	}
	h := halver{parts: partsOf(s), rank: s.Rank, chunk: s.ChunkLen(frameBytes), rounds: halvings(s.Rank, s.Size), sums: plan.Scratch}
	h.out = plan.Span{Buf: plan.Out, Len: s.PartLen(s.Rank)}
	p.Lanes[0] = h.reduceScatter()
	if s.Size > 2 {
		p.Scratch = h.parts.len(h.rounds[0].keep, (s.Size+1)/2)
	}
	return p, nil
}
