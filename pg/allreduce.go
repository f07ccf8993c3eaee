package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// AllReduce replaces the elements of t on every rank by their reduction over all ranks, bitwise the same everywhere.
//
// T has the same length and element type on all ranks, and the reduction is the same. On a GPU the call is enqueued on the
// caller's stream. A wrong argument is an error of this call alone; any later error ends the group. c10d: all_reduce.
func (g *Group) AllReduce(ctx context.Context, t colligo.Tensor, op colligo.ReduceOp) error {
	return g.run(ctx, g.call().AllReduce(t, op))
}

// AllReduceAsync starts an AllReduce. Its Work tells the end and the error; t belongs to the operation until then. c10d:
// all_reduce with async_op.
func (g *Group) AllReduceAsync(ctx context.Context, t colligo.Tensor, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.newCall().AllReduce(t, op))
}
