package pg

import (
	"context"
	"math"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// AllToAll copies ins[r] of this rank to outs[Rank()] of rank r, for every pair of ranks. Lengths may differ; ins[r] here
// must be as long as outs of this rank there. On the CPU the lists may share memory. c10d: all_to_all.
func (g *Group) AllToAll(ctx context.Context, outs, ins []colligo.Tensor) error {
	return g.run(ctx, g.allToAll(outs, ins))
}

// AllToAllAsync starts an AllToAll.
func (g *Group) AllToAllAsync(ctx context.Context, outs, ins []colligo.Tensor) *Work {
	return g.start(ctx, g.allToAll(outs, ins))
}

// AllToAllSingle is AllToAll between two tensors that hold a part for each rank one after the other. The splits give the
// elements of each part; both nil cut the tensors evenly on all ranks. Out and in must not overlap.
// c10d: all_to_all_single.
func (g *Group) AllToAllSingle(ctx context.Context, out, in colligo.Tensor, outSplits, inSplits []int) error {
	r := g.allToAllSingle(out, in, outSplits, inSplits)
	return g.runOf(ctx, &r)
}

// AllToAllSingleAsync starts an AllToAllSingle.
func (g *Group) AllToAllSingleAsync(ctx context.Context, out, in colligo.Tensor, outSplits, inSplits []int) *Work {
	return g.start(ctx, g.allToAllSingle(out, in, outSplits, inSplits))
}

func (g *Group) allToAll(outs, ins []colligo.Tensor) (r request) {
	g = g.orOutside()
	if len(ins) == 0 {
		return request{coll: plan.AllToAll, size: g.size, err: errNoTensors}
	}
	g.newRequest(&r, plan.AllToAll, ins[0])
	r.readList(ins)
	r.writeList(outs)
	if r.clash() {
		r.in, r.ins, r.keep[0] = nil, ins, nil
	}
	if r.err == nil {
		r.split(g.rank, allLengths(ins), allLengths(outs))
	}
	return r
}

func (g *Group) allToAllSingle(out, in colligo.Tensor, outSplits, inSplits []int) (r request) {
	g = g.orOutside()
	g.newRequest(&r, plan.AllToAll, in)
	r.readChecked(&in)
	r.write(out)
	if r.err != nil {
		return r
	}
	if outSplits == nil && inSplits == nil {
		if r.count = in.Len() / g.size; in.Len() != out.Len() || in.Len()%g.size != 0 {
			r.failf("%d elements in and %d out cannot be split evenly over %d ranks", in.Len(), out.Len(), g.size)
		}
	} else {
		r.split(g.rank, r.splits(inSplits, in.Len()), r.splits(outSplits, out.Len()))
	}
	r.separate(out, in, g.rank, false)
	return r
}

// split sets the elements that go to and come from each rank.
func (r *request) split(rank int, to, from []int) {
	if r.err == nil && to[rank] != from[rank] {
		r.failf("rank %d sends %d elements to itself and receives %d", rank, to[rank], from[rank])
	}
	r.counts, r.recv = to, from
}

// splits checks the parts of a tensor of n elements; nil cuts it evenly.
func (r *request) splits(parts []int, n int) []int {
	if parts == nil {
		if n%r.size != 0 {
			r.failf("%d elements cannot be split evenly over %d ranks", n, r.size)
			return nil
		}
		parts = make([]int, r.size)
		for i := range parts {
			parts[i] = n / r.size
		}
		return parts
	}
	sum := 0
	for i, p := range parts {
		if p < 0 {
			r.failf("split %d is %d", i, p)
		}
		sum += min(p, math.MaxInt-sum) // what does not fit stays wrong
	}
	if len(parts) != r.size || sum != n {
		r.failf("%d splits of %d elements together for %d ranks and a tensor of %d elements", len(parts), sum, r.size, n)
	}
	return append([]int(nil), parts...)
}

func allLengths(ts []colligo.Tensor) []int {
	n := make([]int, len(ts))
	for i, t := range ts {
		n[i] = t.Len()
	}
	return n
}
