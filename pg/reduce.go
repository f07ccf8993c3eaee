package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// Reduce replaces the elements of t on the root by their reduction over all ranks; the other ranks' t is only read.
// c10d: reduce.
func (g *Group) Reduce(ctx context.Context, t colligo.Tensor, root int, op colligo.ReduceOp) error {
	return g.run(ctx, g.call().ReduceTo(t, root, op))
}

// ReduceAsync starts a Reduce.
func (g *Group) ReduceAsync(ctx context.Context, t colligo.Tensor, root int, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.call().ReduceTo(t, root, op))
}
