package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// ReduceScatter reduces ins[r] over all ranks into out on rank r. The lengths of ins may differ, but must be the same
// list on every rank. On the CPU out may be any of ins. c10d: reduce_scatter, even and uneven.
func (g *Group) ReduceScatter(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, op colligo.ReduceOp) error {
	return g.run(ctx, g.call().ReduceScatter(out, ins, op))
}

// ReduceScatterAsync starts a ReduceScatter.
func (g *Group) ReduceScatterAsync(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.call().ReduceScatter(out, ins, op))
}

// ReduceScatterTensor is ReduceScatter from one tensor that holds the ranks' parts one after the other, all as long as
// out. Out may be this rank's part of in. c10d: reduce_scatter_tensor.
func (g *Group) ReduceScatterTensor(ctx context.Context, out, in colligo.Tensor, op colligo.ReduceOp) error {
	return g.run(ctx, g.call().ReduceScatterTensor(out, in, op))
}

// ReduceScatterTensorAsync starts a ReduceScatterTensor.
func (g *Group) ReduceScatterTensorAsync(ctx context.Context, out, in colligo.Tensor, op colligo.ReduceOp) *Work {
	return g.start(ctx, g.call().ReduceScatterTensor(out, in, op))
}
