package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// AllToAll copies ins[r] of this rank to outs[Rank()] of rank r, for every pair of ranks. Lengths may differ; ins[r] here
// must be as long as outs of this rank there. On the CPU the lists may share memory. c10d: all_to_all.
func (g *Group) AllToAll(ctx context.Context, outs, ins []colligo.Tensor) error {
	return g.run(ctx, g.call().AllToAll(outs, ins))
}

// AllToAllAsync starts an AllToAll.
func (g *Group) AllToAllAsync(ctx context.Context, outs, ins []colligo.Tensor) *Work {
	return g.start(ctx, g.call().AllToAll(outs, ins))
}

// AllToAllSingle is AllToAll between two tensors that hold a part for each rank one after the other. The splits give the
// elements of each part; both nil cut the tensors evenly on all ranks. Out and in must not overlap.
// c10d: all_to_all_single.
func (g *Group) AllToAllSingle(ctx context.Context, out, in colligo.Tensor, outSplits, inSplits []int) error {
	return g.run(ctx, g.call().AllToAllSingle(out, in, outSplits, inSplits))
}

// AllToAllSingleAsync starts an AllToAllSingle.
func (g *Group) AllToAllSingleAsync(ctx context.Context, out, in colligo.Tensor, outSplits, inSplits []int) *Work {
	return g.start(ctx, g.call().AllToAllSingle(out, in, outSplits, inSplits))
}
