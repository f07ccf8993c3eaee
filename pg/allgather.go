package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// AllGather copies in of each rank r to outs[r] on every rank. The lengths of outs may differ, but must be the same list
// on every rank, and in must be as long as outs[Rank()]. On the CPU in may be any of outs. c10d: all_gather, even and uneven.
func (g *Group) AllGather(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor) error {
	return g.run(ctx, g.call().AllGather(outs, in))
}

// AllGatherAsync starts an AllGather.
func (g *Group) AllGatherAsync(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor) *Work {
	return g.start(ctx, g.call().AllGather(outs, in))
}

// AllGatherIntoTensor is AllGather into one tensor that holds the ranks' parts one after the other, all as long as in. In may
// be this rank's part of out. c10d: all_gather_into_tensor.
func (g *Group) AllGatherIntoTensor(ctx context.Context, out, in colligo.Tensor) error {
	return g.run(ctx, g.call().AllGatherInto(out, in))
}

// AllGatherIntoTensorAsync starts an AllGatherIntoTensor.
func (g *Group) AllGatherIntoTensorAsync(ctx context.Context, out, in colligo.Tensor) *Work {
	return g.start(ctx, g.call().AllGatherInto(out, in))
}
