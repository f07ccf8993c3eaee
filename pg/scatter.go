package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// Scatter copies ins[r] of the root to out on rank r; other ranks pass nil ins. All outputs have the same length.
// c10d: scatter.
func (g *Group) Scatter(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, root int) error {
	return g.run(ctx, g.call().Scatter(out, ins, nil, root))
}

// ScatterAsync starts a Scatter.
func (g *Group) ScatterAsync(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, root int) *Work {
	return g.start(ctx, g.call().Scatter(out, ins, nil, root))
}

// ScatterV is Scatter of parts whose lengths differ: counts[r] is the length of rank r's, and the same list on every
// rank.
func (g *Group) ScatterV(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, counts []int, root int) error {
	return g.run(ctx, g.call().Scatter(out, ins, counts, root))
}

// ScatterVAsync starts a ScatterV.
func (g *Group) ScatterVAsync(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, counts []int, root int) *Work {
	return g.start(ctx, g.call().Scatter(out, ins, counts, root))
}
