package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// AllGather copies in of each rank r to outs[r] on every rank. The lengths of outs may differ, but are the same list on
// every rank. In is as long as outs[Rank()].
//
// On the CPU in may be any of outs. On a GPU it must overlap none, and the call is enqueued on the caller's stream. A wrong
// argument is an error of this call alone; any later error ends the group. c10d: all_gather, even and uneven.
func (g *Group) AllGather(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor) error {
	return g.run(ctx, g.call().AllGather(outs, in))
}

// AllGatherAsync starts an AllGather. Its Work tells the end and the error; the tensors belong to the operation until then.
// c10d: all_gather with async_op.
func (g *Group) AllGatherAsync(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor) *Work {
	return g.start(ctx, g.newCall().AllGather(outs, in))
}

// AllGatherIntoTensor copies in of every rank to out on every rank, one after the other in the order of the ranks. In has
// the same length on all ranks, and out is Size() times as long.
//
// In may be this rank's part of out; else they must not overlap. On a GPU the call is enqueued on the caller's stream. A
// wrong argument is an error of this call alone; any later error ends the group. c10d: all_gather_into_tensor.
func (g *Group) AllGatherIntoTensor(ctx context.Context, out, in colligo.Tensor) error {
	return g.run(ctx, g.call().AllGatherInto(out, in))
}

// AllGatherIntoTensorAsync starts an AllGatherIntoTensor. Its Work tells the end and the error; the tensors belong to the
// operation until then. c10d: all_gather_into_tensor with async_op.
func (g *Group) AllGatherIntoTensorAsync(ctx context.Context, out, in colligo.Tensor) *Work {
	return g.start(ctx, g.newCall().AllGatherInto(out, in))
}
