package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// ReduceScatter reduces ins[r] over all ranks into out on rank r. The lengths of ins may differ, but are the same list on
// every rank. Out is as long as ins[Rank()].
//
// On the CPU out may be any of ins. On a GPU it must overlap none, and the call is enqueued on the caller's stream. A wrong
// argument is an error of this call alone; any later error ends the group. c10d: reduce_scatter, even and uneven.
func (g *Group) ReduceScatter(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, op colligo.ReduceOp) error {
	return g.run(ctx, g.call().ReduceScatter(out, ins, op))
}

// ReduceScatterAsync starts a ReduceScatter. Its Work tells the end and the error; the tensors belong to the operation until
// then. c10d: reduce_scatter with async_op.
func (g *Group) ReduceScatterAsync(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.newCall().ReduceScatter(out, ins, op))
}

// ReduceScatterTensor reduces part r of in over all ranks into out on rank r. The parts of in lie one after the other, each
// as long as out. Out has the same length on all ranks.
//
// Out may be this rank's part of in; else they must not overlap. On a GPU the call is enqueued on the caller's stream. A
// wrong argument is an error of this call alone; any later error ends the group. c10d: reduce_scatter_tensor.
func (g *Group) ReduceScatterTensor(ctx context.Context, out, in colligo.Tensor, op colligo.ReduceOp) error {
	return g.run(ctx, g.call().ReduceScatterTensor(out, in, op))
}

// ReduceScatterTensorAsync starts a ReduceScatterTensor. Its Work tells the end and the error; the tensors belong to the
// operation until then. c10d: reduce_scatter_tensor with async_op.
func (g *Group) ReduceScatterTensorAsync(ctx context.Context, out, in colligo.Tensor, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.newCall().ReduceScatterTensor(out, in, op))
}
