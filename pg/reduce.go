package pg

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// Reduce replaces the elements of t on the root by their reduction over all ranks; the other ranks' t is only read.
// c10d: reduce.
func (g *Group) Reduce(ctx context.Context, t colligo.Tensor, root int, op colligo.ReduceOp) error {
	return g.run(ctx, g.reduce(t, root, op))
}

// ReduceAsync starts a Reduce.
func (g *Group) ReduceAsync(ctx context.Context, t colligo.Tensor, root int, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.reduce(t, root, op))
}

func (g *Group) reduce(t colligo.Tensor, root int, op colligo.ReduceOp) (r request) {
	g = g.orOutside()
	g.newRequest(&r, plan.Reduce, t)
	r.count = t.Len()
	r.rooted(root)
	r.read(t)
	if g.rank == root {
		r.write(t)
	}
	r.reduceWith(op)
	return r
}
