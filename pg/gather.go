package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// Gather copies in of each rank r to outs[r] on the root. Other ranks pass nil outs. All inputs have the same length and
// element type; in must not overlap outs.
//
// On a GPU the call is enqueued on the caller's stream. A wrong argument is an error of this call alone; any later error
// ends the group. c10d: gather.
func (g *Group) Gather(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, root int) error {
	return g.run(ctx, g.call().Gather(outs, in, nil, root))
}

// GatherAsync starts a Gather. Its Work tells the end and the error; the tensors belong to the operation until then. c10d:
// gather with async_op.
func (g *Group) GatherAsync(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, root int) *Work {
	return g.start(ctx, g.newCall().Gather(outs, in, nil, root))
}

// GatherV gathers inputs of different lengths on the root, as Gather does those of one length. The input of rank r has
// counts[r] elements, which may be 0; counts are the same list on every rank. Memory, devices and errors are as for Gather.
// MPI: MPI_Gatherv.
func (g *Group) GatherV(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, counts []int, root int) error {
	return g.run(ctx, g.call().Gather(outs, in, counts, root))
}

// GatherVAsync starts a GatherV. Its Work tells the end and the error; the tensors belong to the operation until then. MPI:
// MPI_Igatherv.
func (g *Group) GatherVAsync(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, counts []int, root int) *Work {
	return g.start(ctx, g.newCall().Gather(outs, in, counts, root))
}
