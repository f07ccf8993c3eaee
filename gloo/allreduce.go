package gloo

import "github.com/colligo-go/colligo/plan"

// AllReduce reduces a tensor on all ranks, over the ring.
//
//	steps    2(n-1)p, with p = ⌈max(S/MiB, 2n)/n⌉ segments of a chunk; fewer where segments are empty
//	bytes    2(n-1)/n S sent, and as many received
//	scratch  none: sums grow in Out
//	order    invariant 2; for n = 1 a copy
func AllReduce(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.AllReduce, "gloo_ring", 1)
	if err != nil {
		return nil, err
	}
	in, out := plan.Span{Buf: plan.In, Len: s.Count}, plan.Span{Buf: plan.Out, Len: s.Count}
	if s.Size == 1 {
		b.copy(0, out, in)
	} else if s.Count > 0 {
		r := b.newRing(0, in, out)
		r.reduceScatter()
		r.allGather()
	}
	return b.plan, nil
}
