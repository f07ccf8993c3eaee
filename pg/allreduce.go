package pg

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// AllReduce replaces the elements of t on every rank by their reduction over all ranks, bitwise the same everywhere.
// c10d: all_reduce.
func (g *Group) AllReduce(ctx context.Context, t colligo.Tensor, op colligo.ReduceOp) error {
	r := g.allReduce(t, op)
	return g.runOf(ctx, &r)
}

// AllReduceAsync starts an AllReduce.
func (g *Group) AllReduceAsync(ctx context.Context, t colligo.Tensor, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.allReduce(t, op))
}

func (g *Group) allReduce(t colligo.Tensor, op colligo.ReduceOp) (r request) {
	g.newRequest(&r, plan.AllReduce, t)
	r.count = t.Len()
	r.readChecked(&t)
	r.writeChecked(&t)
	r.reduceWith(op)
	return r
}
