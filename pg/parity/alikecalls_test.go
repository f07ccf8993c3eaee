package parity

import (
	"context"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// drawn is the arguments of a random call.
type drawn struct {
	d, outType colligo.DType
	n, outN    int // elements of a rank's part
	by         colligo.ReduceOp
	root       int
	lists      int  // how many tensors a list has
	uneven     bool // each rank's part has another length
	noTensor   bool // in place of the input
	wrong      string
}

// draw draws arguments. Some are wrong.
func (a *alike) draw() drawn {
	types := slices.DeleteFunc(colligo.DTypes(), func(d colligo.DType) bool {
		return d == colligo.Int16 || d == colligo.Float8E4M3FN || d == colligo.Float8E5M2
	})
	ops := []colligo.ReduceOp{colligo.Sum, colligo.Prod, colligo.Min, colligo.Max, colligo.PremulSum(2)}
	if a.Size() != 3 { // thirds are rounded, and in the order of the sums
		ops = append(ops, colligo.Avg)
	}
	size := a.Size()
	c := drawn{d: colligo.Float32, by: colligo.Sum, n: []int{0, 1, 4, 7, 64, 1000, 20_000}[a.IntN(7)], root: a.IntN(size), lists: size}
	if a.one(2) {
		c.d = types[a.IntN(len(types))]
	}
	if !a.one(3) {
		c.by = ops[a.IntN(len(ops))]
	}
	c.uneven = a.one(4)
	c.outType, c.outN = c.d, c.n
	switch a.IntN(30) {
	case 0:
		c.wrong, c.outType = "another type", types[a.IntN(len(types))]
	case 1:
		c.wrong, c.outN = "an element more", c.n+1
	case 2:
		if c.n > 0 {
			c.wrong, c.outN = "an element less", c.n-1
		}
	case 3:
		c.wrong, c.root = "no such root", size
	case 4:
		c.wrong, c.root = "negative root", -1
	case 5:
		c.wrong, c.lists = "a tensor less", size-1
	case 6:
		c.wrong, c.lists = "a tensor more", size+1
	case 7:
		c.wrong, c.noTensor = "no tensor", true
	}
	return c
}

// String describes the arguments.
func (c *drawn) String() string {
	return fmt.Sprintf("%v n=%d %v root=%d uneven=%v %s", c.d, c.n, c.by, c.root, c.uneven, c.wrong)
}

// input returns the input of a call.
func (a *alike) input(c *drawn, n int) colligo.Tensor {
	if c.noTensor {
		return colligo.Tensor{}
	}
	return a.fresh(c.d, n)
}

// list returns tensors of a list, one for each rank. If they are uneven each is one element longer than the one before.
func (a *alike) list(d colligo.DType, n, count int, uneven bool) (all []colligo.Tensor) {
	for i := range count {
		if uneven {
			all = append(all, a.fresh(d, n+i))
		} else {
			all = append(all, a.fresh(d, n))
		}
	}
	return all
}

// random returns a random call, and says which it is.
func (a *alike) random() (what string, call func(ctx context.Context) *pg.Work) {
	c := a.draw()
	kinds := []func(c *drawn) (string, func(ctx context.Context) *pg.Work){a.ofOne, a.ofLists, a.rooted, a.exchange, a.block}
	what, call = kinds[a.IntN(len(kinds))](&c)
	return what + " " + c.String(), call
}

// ofOne is a collective of one tensor, or of one and another.
func (a *alike) ofOne(c *drawn) (string, func(ctx context.Context) *pg.Work) {
	n := a.Size()
	switch a.IntN(5) {
	case 0, 1:
		x := a.input(c, c.n)
		return "all_reduce", func(ctx context.Context) *pg.Work { return a.AllReduceAsync(ctx, x, c.by) }
	case 2:
		x := a.input(c, c.n)
		return "broadcast", func(ctx context.Context) *pg.Work { return a.BroadcastAsync(ctx, x, c.root) }
	case 3:
		x, y := a.input(c, c.n), a.fresh(c.outType, c.outN*n)
		return "all_gather_into_tensor", func(ctx context.Context) *pg.Work { return a.AllGatherIntoTensorAsync(ctx, y, x) }
	default:
		x, y := a.input(c, c.n*n), a.fresh(c.outType, c.outN)
		return "reduce_scatter_tensor", func(ctx context.Context) *pg.Work { return a.ReduceScatterTensorAsync(ctx, y, x, c.by) }
	}
}

// ofLists is a collective of lists.
func (a *alike) ofLists(c *drawn) (string, func(ctx context.Context) *pg.Work) {
	mine := 0 // how much longer this rank's own part is
	if c.uneven {
		mine = a.Rank()
	}
	switch a.IntN(3) {
	case 0:
		x, outs := a.input(c, c.n+mine), a.list(c.outType, c.outN, c.lists, c.uneven)
		return "all_gather", func(ctx context.Context) *pg.Work { return a.AllGatherAsync(ctx, outs, x) }
	case 1:
		y, ins := a.fresh(c.outType, c.outN+mine), a.list(c.d, c.n, c.lists, c.uneven)
		return "reduce_scatter", func(ctx context.Context) *pg.Work { return a.ReduceScatterAsync(ctx, y, ins, c.by) }
	default:
		outs := a.list(c.outType, c.outN+mine, c.lists, false)
		ins := a.list(c.d, c.n, a.Size(), c.uneven)
		return "all_to_all", func(ctx context.Context) *pg.Work { return a.AllToAllAsync(ctx, outs, ins) }
	}
}

// rooted is a collective with a root. Its lists are right, for other ranks than the root have none.
func (a *alike) rooted(c *drawn) (string, func(ctx context.Context) *pg.Work) {
	kind := a.IntN(3)
	if kind == 0 {
		x := a.input(c, c.n)
		return "reduce", func(ctx context.Context) *pg.Work { return a.ReduceAsync(ctx, x, c.root, c.by) }
	}
	var counts []int
	mine := 0
	if c.uneven {
		mine = a.Rank()
		for q := range a.Size() {
			counts = append(counts, c.n+q)
		}
	}
	x := a.input(c, c.n+mine)
	list := a.list(c.d, c.n, a.Size(), c.uneven)
	if a.Rank() != c.root {
		list = nil
	}
	switch {
	case kind == 1 && c.uneven:
		return "gatherv", func(ctx context.Context) *pg.Work { return a.GatherVAsync(ctx, list, x, counts, c.root) }
	case kind == 1:
		return "gather", func(ctx context.Context) *pg.Work { return a.GatherAsync(ctx, list, x, c.root) }
	case c.uneven:
		return "scatterv", func(ctx context.Context) *pg.Work { return a.ScatterVAsync(ctx, x, list, counts, c.root) }
	default:
		return "scatter", func(ctx context.Context) *pg.Work { return a.ScatterAsync(ctx, x, list, c.root) }
	}
}

// exchange is a message around the ring of ranks, or an all-to-all of one tensor with other lengths for each pair.
func (a *alike) exchange(c *drawn) (string, func(ctx context.Context) *pg.Work) {
	me, n := a.Rank(), a.Size()
	if a.one(2) {
		to, from, tag := (me+1)%n, (me+n-1)%n, a.IntN(3)
		if c.root < 0 || c.root == n {
			to, from = c.root, c.root
		}
		x, y := a.input(c, c.n), a.fresh(c.d, c.n)
		return "batch", func(ctx context.Context) *pg.Work {
			return a.CoalesceAsync(ctx, func(b *pg.Batch) error {
				b.Send(x, to, tag)
				b.Recv(y, from, tag)
				return nil
			})
		}
	}
	var outSplits, inSplits []int
	ins, outs := 0, 0
	for q := range n {
		outSplits, inSplits = append(outSplits, (q+me+c.n)%3), append(inSplits, (me+q+c.n)%3)
		ins, outs = ins+inSplits[q], outs+outSplits[q]
	}
	if c.outN > c.n {
		outSplits[0]++
	}
	if c.root < 0 {
		inSplits[0] -= 3
	}
	x, y := a.input(c, ins), a.fresh(c.outType, outs)
	return "all_to_all_single", func(ctx context.Context) *pg.Work { return a.AllToAllSingleAsync(ctx, y, x, outSplits, inSplits) }
}

// block is a coalesced call.
func (a *alike) block(c *drawn) (string, func(ctx context.Context) *pg.Work) {
	n := a.Size()
	switch a.IntN(4) {
	case 0:
		xs := []colligo.Tensor{a.input(c, c.n), a.fresh(c.outType, c.n), a.fresh(c.d, 7)}
		return "all_reduce_coalesced", func(ctx context.Context) *pg.Work { return a.AllReduceCoalescedAsync(ctx, xs, c.by) }
	case 1:
		ins, outs := []colligo.Tensor{a.input(c, c.n), a.fresh(c.d, 5)}, []colligo.Tensor{a.fresh(c.outType, c.outN*n), a.fresh(c.d, 5*n)}
		return "all_gather_into_tensor_coalesced", func(ctx context.Context) *pg.Work {
			return a.AllGatherIntoTensorCoalescedAsync(ctx, outs, ins)
		}
	case 2:
		ins, outs := []colligo.Tensor{a.input(c, c.n*n), a.fresh(c.d, 5*n)}, []colligo.Tensor{a.fresh(c.outType, c.outN), a.fresh(c.d, 5)}
		return "reduce_scatter_tensor_coalesced", func(ctx context.Context) *pg.Work {
			return a.ReduceScatterTensorCoalescedAsync(ctx, outs, ins, c.by)
		}
	default:
		x, y, in, out := a.input(c, c.n), a.fresh(c.outType, c.outN), a.fresh(c.d, c.n), a.fresh(c.d, c.n*n)
		return "block", func(ctx context.Context) *pg.Work {
			return a.CoalesceAsync(ctx, func(b *pg.Batch) error {
				b.AllReduce(x, c.by)
				b.Broadcast(y, c.root)
				b.AllGatherIntoTensor(out, in)
				return nil
			})
		}
	}
}
