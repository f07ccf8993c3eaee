package tree

import "github.com/colligo-go/colligo/plan"

// A tensor in as many parts as there are ranks is reduced and scattered in rounds. Each round halves the parts that a rank
// is still to reduce. The tensor is gathered by the same rounds backwards in time. For powers of two the rounds are those of
// recursive halving. Two ranks that differ in one bit, the highest first, each keep one half of the parts.
//
// Other sizes take the circulant graph of Träff ("Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms", 2024).
// Its skips halve the size, rounding up, down to 1. A rank r keeps the parts r, r+1, …, round the end of the tensor. In the
// round from skip s to t = ⌈s/2⌉ it gives the sums of r+t … r+s-1 to rank r+t, whose own row begins there. It adds what
// comes from r-t to the sums of r … r+s-t-1. Rank 0 of 5, skips 5 3 2 1:
//
//	part       0  1  2  3  4
//	5 to 3     +  +     →  →     to rank 3; from rank 2, as third and fourth of its row
//	3 to 2     +     →           to rank 2
//	2 to 1     +  →              to rank 1

// halving is one such round. The sums of n parts from give on go to rank to. The sums that rank from gives are added to the
// n parts from keep on.
type halving struct {
	to, from      int
	give, keep, n int
}

// halvings returns the rounds of one rank.
func halvings(rank, size int) (all []halving) {
	for s := size; s > 1; s = (s + 1) / 2 {
		t := (s + 1) / 2
		h := halving{to: (rank + t) % size, from: (rank + size - t) % size, keep: rank, n: s - t}
		h.give = h.to
		if size&(size-1) == 0 {
			h.to, h.from = rank^t, rank^t
			h.give, h.keep = h.to&^(t-1), rank&^(t-1)
		}
		all = append(all, h)
	}
	return all
}

// halver is one rank's view of the rounds.
type halver struct {
	parts       circle
	rank, chunk int
	rounds      []halving
	sums        plan.Buf  // where sums are kept: Out with all parts in place, or Scratch with those of the first round only
	out         plan.Span // where the own part's result goes
}

// reduceScatter returns the steps that leave the rank's own part reduced in h.out.
func (h *halver) reduceScatter() (steps []plan.Step) {
	for i, q := range h.rounds {
		first, last := i == 0, i == len(h.rounds)-1
		give, keep := h.held(q.give, q.n, first), h.held(q.keep, q.n, first)
		sum := keep
		if first {
			give, keep = h.parts.spans(plan.In, q.give, q.n), h.parts.spans(plan.In, q.keep, q.n)
		}
		if last {
			sum = []plan.Span{h.out}
		}
		var recv []plan.Step
		for k := range keep {
			recv = append(recv, sums(q.from, h.chunk, sum[k], keep[k], last)...)
		}
		steps = append(steps, exchange(sends(q.to, h.chunk, give...), recv)...)
		if first && h.parts.size%2 == 1 {
			steps = append(steps, h.middle((h.rank+h.parts.size/2)%h.parts.size)...)
		}
	}
	return steps
}

// middle returns the step that puts a part which the first round neither gives nor adds to beside the sums.
func (h *halver) middle(part int) []plan.Step {
	for _, dst := range h.held(part, 1, true) {
		return copies(h.rank, dst, h.parts.at(plan.In, part))
	}
	return nil
}

// held returns where the sums of n parts are kept. If they come from In, or go to it, they are cut as they are there.
func (h *halver) held(first, n int, cut bool) []plan.Span {
	if h.sums == plan.Out {
		return h.parts.spans(plan.Out, first, n)
	}
	begin := h.rounds[0].keep
	before := (first - begin + h.parts.size) % h.parts.size
	packed := plan.Span{Buf: plan.Scratch, Off: h.parts.len(begin, before), Len: h.parts.len(first, n)}
	if !cut {
		return []plan.Span{packed}
	}
	return h.parts.cut(packed, first, n)
}

// allGather returns the steps that bring all parts to Out, where the rank's own is: the rounds backwards in time.
func (h *halver) allGather() (steps []plan.Step) {
	for i := len(h.rounds) - 1; i >= 0; i-- {
		q := h.rounds[i]
		send := sends(q.from, h.chunk, h.parts.spans(plan.Out, q.keep, q.n)...)
		recv := recvs(q.to, h.chunk, h.parts.spans(plan.Out, q.give, q.n)...)
		steps = append(steps, exchange(send, recv)...)
	}
	return steps
}
