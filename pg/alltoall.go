package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// AllToAll copies ins[r] of this rank to outs[Rank()] of rank r, for every pair of ranks. Each list has a tensor for every
// rank. Lengths may differ: ins[r] here is as long as outs of this rank there, and may be empty.
//
// On the CPU the lists may share memory. On a GPU they must not, and the call is enqueued on the caller's stream. A wrong
// argument is an error of this call alone; any later error ends the group. c10d: all_to_all.
func (g *Group) AllToAll(ctx context.Context, outs, ins []colligo.Tensor) error {
	return g.run(ctx, g.call().AllToAll(outs, ins))
}

// AllToAllAsync starts an AllToAll. Its Work tells the end and the error; the tensors belong to the operation until then.
// c10d: all_to_all with async_op.
func (g *Group) AllToAllAsync(ctx context.Context, outs, ins []colligo.Tensor) *Work {
	return g.start(ctx, g.newCall().AllToAll(outs, ins))
}

// AllToAllSingle copies part r of in to part Rank() of out on rank r, for every pair of ranks. Parts lie one after the
// other. The splits give the elements of each part, and may be 0. Nil splits cut a tensor evenly; both are nil on all ranks
// or on none.
//
// Out and in must not overlap. On a GPU the call is enqueued on the caller's stream. A wrong argument is an error of this
// call alone; any later error ends the group. c10d: all_to_all_single.
func (g *Group) AllToAllSingle(ctx context.Context, out, in colligo.Tensor, outSplits, inSplits []int) error {
	return g.run(ctx, g.call().AllToAllSingle(out, in, outSplits, inSplits))
}

// AllToAllSingleAsync starts an AllToAllSingle. Its Work tells the end and the error; the tensors belong to the operation
// until then. The splits do not. c10d: all_to_all_single with async_op.
func (g *Group) AllToAllSingleAsync(ctx context.Context, out, in colligo.Tensor, outSplits, inSplits []int) *Work {
	return g.start(ctx, g.newCall().AllToAllSingle(out, in, outSplits, inSplits))
}
