package pg

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// ReduceScatter reduces ins[r] over all ranks into out on rank r. The lengths of ins may differ, but must be the same
// list on every rank. On the CPU out may be any of ins. c10d: reduce_scatter, even and uneven.
func (g *Group) ReduceScatter(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, op colligo.ReduceOp) error {
	return g.run(ctx, g.reduceScatter(out, ins, op))
}

// ReduceScatterAsync starts a ReduceScatter.
func (g *Group) ReduceScatterAsync(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.reduceScatter(out, ins, op))
}

// ReduceScatterTensor is ReduceScatter from one tensor that holds the ranks' parts one after the other, all as long as
// out. Out may be this rank's part of in. c10d: reduce_scatter_tensor.
func (g *Group) ReduceScatterTensor(ctx context.Context, out, in colligo.Tensor, op colligo.ReduceOp) error {
	r := g.reduceScatterTensor(out, in, op)
	return g.runOf(ctx, &r)
}

// ReduceScatterTensorAsync starts a ReduceScatterTensor.
func (g *Group) ReduceScatterTensorAsync(ctx context.Context, out, in colligo.Tensor, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.reduceScatterTensor(out, in, op))
}

func (g *Group) reduceScatter(out colligo.Tensor, ins []colligo.Tensor, op colligo.ReduceOp) (r request) {
	g.newRequest(&r, plan.ReduceScatter, out)
	r.writeChecked(&out)
	r.readList(ins)
	if r.err != nil {
		return r
	}
	if n := ins[g.rank].Len(); n != out.Len() {
		r.failf("the output has %d elements, input %d has %d", out.Len(), g.rank, n)
	}
	if r.clash() && out.Addr() != ins[g.rank].Addr() {
		r.in, r.ins, r.keep[0] = nil, ins, nil
	}
	r.count, r.counts = lengths(ins)
	r.reduceWith(op)
	return r
}

func (g *Group) reduceScatterTensor(out, in colligo.Tensor, op colligo.ReduceOp) (r request) {
	g = g.orOutside()
	g.newRequest(&r, plan.ReduceScatter, out)
	r.count = out.Len()
	r.writeChecked(&out)
	r.read(in)
	if want := out.Len() * g.size; r.err == nil && in.Len() != want {
		r.failf("the input has %d elements, %d ranks of %d elements need %d", in.Len(), g.size, out.Len(), want)
	}
	r.separate(out, in, g.rank, true)
	r.reduceWith(op)
	return r
}
