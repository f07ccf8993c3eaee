package pg

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// AllReduceCoalesced is AllReduce of each tensor of a list, which must have one element type. Every rank gives tensors of
// the same lengths in the same order. c10d: all_reduce_coalesced.
func (g *Group) AllReduceCoalesced(ctx context.Context, ts []colligo.Tensor, op colligo.ReduceOp) error {
	rs, err := g.allReduceCoalesced(ts, op)
	if err != nil {
		return err
	}
	return g.runAll(ctx, rs)
}

// AllReduceCoalescedAsync starts an AllReduceCoalesced.
func (g *Group) AllReduceCoalescedAsync(ctx context.Context, ts []colligo.Tensor, op colligo.ReduceOp) *Work {
	rs, err := g.allReduceCoalesced(ts, op)
	return g.startAll(ctx, rs, err)
}

// AllGatherIntoTensorCoalesced is AllGatherIntoTensor of each ins[i] to outs[i]; all have one element type.
// c10d: all_gather_into_tensor in a block, allgather_into_tensor_coalesced.
func (g *Group) AllGatherIntoTensorCoalesced(ctx context.Context, outs, ins []colligo.Tensor) error {
	rs, err := g.allGatherIntoCoalesced(outs, ins)
	if err != nil {
		return err
	}
	return g.runAll(ctx, rs)
}

// AllGatherIntoTensorCoalescedAsync starts an AllGatherIntoTensorCoalesced.
func (g *Group) AllGatherIntoTensorCoalescedAsync(ctx context.Context, outs, ins []colligo.Tensor) *Work {
	rs, err := g.allGatherIntoCoalesced(outs, ins)
	return g.startAll(ctx, rs, err)
}

// AllGatherCoalesced is AllGather of each ins[i] to the list outs[i], which has a tensor for every rank; all have one
// element type. c10d: all_gather_coalesced.
func (g *Group) AllGatherCoalesced(ctx context.Context, outs [][]colligo.Tensor, ins []colligo.Tensor) error {
	rs, err := g.allGatherCoalesced(outs, ins)
	if err != nil {
		return err
	}
	return g.runAll(ctx, rs)
}

// AllGatherCoalescedAsync starts an AllGatherCoalesced.
func (g *Group) AllGatherCoalescedAsync(ctx context.Context, outs [][]colligo.Tensor, ins []colligo.Tensor) *Work {
	rs, err := g.allGatherCoalesced(outs, ins)
	return g.startAll(ctx, rs, err)
}

// ReduceScatterTensorCoalesced is ReduceScatterTensor of each ins[i] to outs[i]; all have one element type.
// c10d: reduce_scatter_tensor in a block, reduce_scatter_tensor_coalesced.
func (g *Group) ReduceScatterTensorCoalesced(ctx context.Context, outs, ins []colligo.Tensor, op colligo.ReduceOp) error {
	rs, err := g.reduceScatterTensorCoalesced(outs, ins, op)
	if err != nil {
		return err
	}
	return g.runAll(ctx, rs)
}

// ReduceScatterTensorCoalescedAsync starts a ReduceScatterTensorCoalesced.
func (g *Group) ReduceScatterTensorCoalescedAsync(ctx context.Context, outs, ins []colligo.Tensor, op colligo.ReduceOp) *Work {
	rs, err := g.reduceScatterTensorCoalesced(outs, ins, op)
	return g.startAll(ctx, rs, err)
}

// BroadcastCoalesced copies a list of tensors of any types from the root to every rank. Tensors of one type travel together
// in buckets of at least bufferSize bytes (the last of a type may have less), in the order of their first tensors;
// a bufferSize of 0 is 250 MiB. Every rank gives tensors of the same types and lengths, and the same bufferSize.
// c10d: _broadcast_coalesced, with its buckets.
func (g *Group) BroadcastCoalesced(ctx context.Context, ts []colligo.Tensor, bufferSize, root int) error {
	rs, err := g.broadcastCoalesced(ts, bufferSize, root)
	if err != nil {
		return err
	}
	return g.runAll(ctx, rs)
}

// list makes the n operations of a coalesced form, which must not be empty and have one element type.
func (g *Group) list(coll plan.Coll, n int, each func(i int) request) ([]request, error) {
	g = g.orOutside()
	if n == 0 {
		r := request{coll: coll, size: g.size, err: errNoTensors}
		return nil, g.explain(&r, 0, r.err, false)
	}
	rs := make([]request, n)
	for i := range rs {
		rs[i] = each(i)
		if rs[i].dtype != rs[0].dtype && rs[0].err == nil {
			rs[i].failf("tensors of %v and %v in one call", rs[0].dtype, rs[i].dtype)
		}
	}
	return rs, g.checkAll(rs)
}

// lists is list of forms with outputs and inputs.
func (g *Group) lists(coll plan.Coll, outs, ins int, each func(i int) request) ([]request, error) {
	g = g.orOutside()
	return g.list(coll, max(outs, ins), func(i int) request {
		if outs != ins {
			r := request{coll: coll, size: g.size}
			r.failf("%d outputs for %d inputs", outs, ins)
			return r
		}
		return each(i)
	})
}

func (g *Group) allReduceCoalesced(ts []colligo.Tensor, op colligo.ReduceOp) ([]request, error) {
	return g.list(plan.AllReduce, len(ts), func(i int) request { return g.allReduce(ts[i], op) })
}

func (g *Group) allGatherIntoCoalesced(outs, ins []colligo.Tensor) ([]request, error) {
	return g.lists(plan.AllGather, len(outs), len(ins), func(i int) request { return g.allGatherInto(outs[i], ins[i]) })
}

func (g *Group) allGatherCoalesced(outs [][]colligo.Tensor, ins []colligo.Tensor) ([]request, error) {
	return g.lists(plan.AllGather, len(outs), len(ins), func(i int) request { return g.allGather(outs[i], ins[i]) })
}

func (g *Group) reduceScatterTensorCoalesced(outs, ins []colligo.Tensor, op colligo.ReduceOp) ([]request, error) {
	return g.lists(plan.ReduceScatter, len(outs), len(ins), func(i int) request {
		return g.reduceScatterTensor(outs[i], ins[i], op)
	})
}

// defaultBuffer is c10d's bufferSize where it synchronizes the parameters of a module.
const defaultBuffer = 250 << 20

// broadcastCoalesced makes one broadcast of each bucket. On a device the tensors travel on their own.
func (g *Group) broadcastCoalesced(ts []colligo.Tensor, bufferSize, root int) ([]request, error) {
	g = g.orOutside()
	if bufferSize == 0 {
		bufferSize = defaultBuffer
	}
	rs := make([]request, len(ts))
	for i, t := range ts {
		rs[i] = g.broadcast(t, root)
		if bufferSize < 0 {
			rs[i].failf("buckets of %d bytes", bufferSize)
		}
	}
	if err := g.checkAll(rs); err != nil || len(rs) == 0 || rs[0].device.Kind != colligo.CPU || g.size == 1 {
		return rs, err
	}
	var out []request
	for _, b := range buckets(rs, bufferSize) {
		if len(b) > 1 {
			out = append(out, g.together(b))
		} else {
			out = append(out, b[0])
		}
	}
	return out, nil
}

// buckets deals operations to one bucket for each element type, and begins a new one when it is full. Buckets come in
// the order of their first operations.
func buckets(rs []request, size int) [][]request {
	type bucket struct {
		bytes int
		rs    []request
	}
	var all []*bucket
	open := map[colligo.DType]*bucket{}
	for i := range rs {
		b := open[rs[i].dtype]
		if b == nil {
			b = &bucket{}
			all, open[rs[i].dtype] = append(all, b), b
		}
		b.rs = append(b.rs, rs[i])
		if b.bytes += rs[i].volume(); b.bytes >= size {
			delete(open, rs[i].dtype)
		}
	}
	out := make([][]request, len(all))
	for i, b := range all {
		out[i] = b.rs
	}
	return out
}
