package pg

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// Scatter copies ins[r] of the root to out on rank r; other ranks pass nil ins. All outputs have the same length.
// c10d: scatter.
func (g *Group) Scatter(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, root int) error {
	return g.run(ctx, g.scatter(out, ins, nil, root))
}

// ScatterAsync starts a Scatter.
func (g *Group) ScatterAsync(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, root int) *Work {
	return g.start(ctx, g.scatter(out, ins, nil, root))
}

// ScatterV is Scatter of parts whose lengths differ: counts[r] is the length of rank r's, and the same list on every
// rank.
func (g *Group) ScatterV(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, counts []int, root int) error {
	return g.run(ctx, g.scatter(out, ins, counts, root))
}

// ScatterVAsync starts a ScatterV.
func (g *Group) ScatterVAsync(ctx context.Context, out colligo.Tensor, ins []colligo.Tensor, counts []int, root int) *Work {
	return g.start(ctx, g.scatter(out, ins, counts, root))
}

func (g *Group) scatter(out colligo.Tensor, ins []colligo.Tensor, counts []int, root int) (r request) {
	g = g.orOutside()
	g.newRequest(&r, plan.Scatter, out)
	r.rooted(root)
	r.write(out)
	r.parts(out, counts, g.rank)
	if g.rank == root {
		r.readList(ins)
		r.fits(ins)
	} else if len(ins) != 0 {
		r.failf("%d input tensors on rank %d, which is not the root %d", len(ins), g.rank, root)
	}
	return r
}
