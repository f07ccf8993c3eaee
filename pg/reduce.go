package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// Reduce replaces the elements of t on the root by their reduction over all ranks. The other ranks' t is only read. T has
// the same length and element type on all ranks; the root and the reduction are the same.
//
// On a GPU the call is enqueued on the caller's stream. A wrong argument is an error of this call alone; any later error
// ends the group. c10d: reduce.
func (g *Group) Reduce(ctx context.Context, t colligo.Tensor, root int, op colligo.ReduceOp) error {
	return g.run(ctx, g.call().ReduceTo(t, root, op))
}

// ReduceAsync starts a Reduce. Its Work tells the end and the error; t belongs to the operation until then. c10d: reduce
// with async_op.
func (g *Group) ReduceAsync(ctx context.Context, t colligo.Tensor, root int, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.newCall().ReduceTo(t, root, op))
}
