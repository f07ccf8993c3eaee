package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// Scatter copies ins[r] of the root to out on rank r. Other ranks pass nil ins. All outputs have the same length and element
// type; out must not overlap ins.
//
// On a GPU the call is enqueued on the caller's stream. A wrong argument is an error of this call alone; any later error
// ends the group. c10d: scatter.
func (g *Group) Scatter(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, root int) error {
	return g.run(ctx, g.call().Scatter(out, ins, nil, root))
}

// ScatterAsync starts a Scatter. Its Work tells the end and the error; the tensors belong to the operation until then. c10d:
// scatter with async_op.
func (g *Group) ScatterAsync(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, root int) *Work {
	return g.start(ctx, g.newCall().Scatter(out, ins, nil, root))
}

// ScatterV scatters parts of different lengths from the root, as Scatter does those of one length. The part of rank r has
// counts[r] elements, which may be 0; counts are the same list on every rank. Memory, devices and errors are as for Scatter.
// MPI: MPI_Scatterv.
func (g *Group) ScatterV(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, counts []int, root int) error {
	return g.run(ctx, g.call().Scatter(out, ins, counts, root))
}

// ScatterVAsync starts a ScatterV. Its Work tells the end and the error; the tensors belong to the operation until then.
// MPI: MPI_Iscatterv.
func (g *Group) ScatterVAsync(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, counts []int, root int) *Work {
	return g.start(ctx, g.newCall().Scatter(out, ins, counts, root))
}
