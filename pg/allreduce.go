package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// AllReduce replaces the elements of t on every rank by their reduction over all ranks, bitwise the same everywhere.
// c10d: all_reduce.
func (g *Group) AllReduce(ctx context.Context, t colligo.Tensor, op colligo.ReduceOp) error {
	return g.run(ctx, g.call().AllReduce(t, op))
}

// AllReduceAsync starts an AllReduce.
func (g *Group) AllReduceAsync(ctx context.Context, t colligo.Tensor, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.call().AllReduce(t, op))
}
