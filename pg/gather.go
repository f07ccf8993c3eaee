package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// Gather copies in of each rank r to outs[r] on the root; other ranks pass nil outs. All inputs have the same length.
// c10d: gather.
func (g *Group) Gather(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, root int) error {
	return g.run(ctx, g.call().Gather(outs, in, nil, root))
}

// GatherAsync starts a Gather.
func (g *Group) GatherAsync(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, root int) *Work {
	return g.start(ctx, g.call().Gather(outs, in, nil, root))
}

// GatherV is Gather of inputs whose lengths differ: counts[r] is the length of rank r's, and the same list on every rank.
func (g *Group) GatherV(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, counts []int, root int) error {
	return g.run(ctx, g.call().Gather(outs, in, counts, root))
}

// GatherVAsync starts a GatherV.
func (g *Group) GatherVAsync(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, counts []int, root int) *Work {
	return g.start(ctx, g.call().Gather(outs, in, counts, root))
}
