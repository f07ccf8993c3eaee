package pg

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// AllReduceCoalesced reduces each tensor of a list over all ranks, in place, as one launch. All have one element type and
// lie on one device. Every rank gives tensors of the same lengths in the same order; they must not overlap.
//
// On a GPU the call is enqueued on the caller's stream. A wrong argument is an error of this call alone; any later error
// ends the group. c10d: all_reduce_coalesced.
func (g *Group) AllReduceCoalesced(ctx context.Context, ts []colligo.Tensor, op colligo.ReduceOp) error {
	ops, err := allReduceCoalesced(g, ts, op)
	if err != nil {
		return err
	}
	return g.runAll(ctx, ops)
}

// AllReduceCoalescedAsync starts an AllReduceCoalesced. Its Work tells the end and the error of all; the tensors belong to
// the operation until then. c10d: all_reduce_coalesced with async_op.
func (g *Group) AllReduceCoalescedAsync(ctx context.Context, ts []colligo.Tensor, op colligo.ReduceOp) *Work {
	ops, err := allReduceCoalesced(g, ts, op)
	return g.startAll(ctx, ops, err)
}

// AllGatherIntoTensorCoalesced gathers each ins[i] of every rank into outs[i], in the order of the ranks, as one launch. All
// have one element type and lie on one device. Lengths are as for AllGatherIntoTensor, for each i.
//
// An input may be this rank's part of its own output; other tensors must not overlap. On a GPU the call is enqueued on the
// caller's stream. A wrong argument is an error of this call alone; any later error ends the group. c10d:
// all_gather_into_tensor in a block, allgather_into_tensor_coalesced.
func (g *Group) AllGatherIntoTensorCoalesced(ctx context.Context, outs, ins []colligo.Tensor) error {
	ops, err := allGatherIntoCoalesced(g, outs, ins)
	if err != nil {
		return err
	}
	return g.runAll(ctx, ops)
}

// AllGatherIntoTensorCoalescedAsync starts an AllGatherIntoTensorCoalesced. Its Work tells the end and the error of all; the
// tensors belong to the operation until then. c10d: allgather_into_tensor_coalesced.
func (g *Group) AllGatherIntoTensorCoalescedAsync(ctx context.Context, outs, ins []colligo.Tensor) *Work {
	ops, err := allGatherIntoCoalesced(g, outs, ins)
	return g.startAll(ctx, ops, err)
}

// AllGatherCoalesced copies each ins[i] of rank r to outs[i][r] on every rank, as one launch. Each outs[i] has a tensor for
// every rank. All have one element type and lie on one device. Lengths are as for AllGather, for each i.
//
// Tensors of different i must not overlap. On a GPU the call is enqueued on the caller's stream. A wrong argument is an
// error of this call alone; any later error ends the group. c10d: all_gather_coalesced.
func (g *Group) AllGatherCoalesced(ctx context.Context, outs [][]colligo.Tensor, ins []colligo.Tensor) error {
	ops, err := allGatherCoalesced(g, outs, ins)
	if err != nil {
		return err
	}
	return g.runAll(ctx, ops)
}

// AllGatherCoalescedAsync starts an AllGatherCoalesced. Its Work tells the end and the error of all; the tensors belong to
// the operation until then. c10d: all_gather_coalesced with async_op.
func (g *Group) AllGatherCoalescedAsync(ctx context.Context, outs [][]colligo.Tensor, ins []colligo.Tensor) *Work {
	ops, err := allGatherCoalesced(g, outs, ins)
	return g.startAll(ctx, ops, err)
}

// ReduceScatterTensorCoalesced reduces part r of each ins[i] over all ranks into outs[i] on rank r, as one launch. All have
// one element type and lie on one device. Lengths are as for ReduceScatterTensor, for each i.
//
// An output may be this rank's part of its own input; other tensors must not overlap. On a GPU the call is enqueued on the
// caller's stream. A wrong argument is an error of this call alone; any later error ends the group. c10d:
// reduce_scatter_tensor in a block, reduce_scatter_tensor_coalesced.
func (g *Group) ReduceScatterTensorCoalesced(ctx context.Context, outs, ins []colligo.Tensor, op colligo.ReduceOp) error {
	ops, err := reduceScatterTensorCoalesced(g, outs, ins, op)
	if err != nil {
		return err
	}
	return g.runAll(ctx, ops)
}

// ReduceScatterTensorCoalescedAsync starts a ReduceScatterTensorCoalesced. Its Work tells the end and the error of all; the
// tensors belong to the operation until then. c10d: reduce_scatter_tensor_coalesced.
func (g *Group) ReduceScatterTensorCoalescedAsync(ctx context.Context, outs, ins []colligo.Tensor, op colligo.ReduceOp) *Work {
	ops, err := reduceScatterTensorCoalesced(g, outs, ins, op)
	return g.startAll(ctx, ops, err)
}

// BroadcastCoalesced copies a list of tensors of any types from the root to every rank. Every rank gives tensors of the same
// types and lengths in the same order, and the same bufferSize. The list may be empty.
//
// On the CPU tensors of one type travel together in buckets, in the order of their first tensors. A bucket is full with
// bufferSize bytes or more; 0 stands for 250 MiB. On a GPU tensors travel on their own, enqueued on the caller's stream as
// one launch. A wrong argument is an error of this call alone; any later error ends the group. c10d: _broadcast_coalesced,
// with its buckets.
func (g *Group) BroadcastCoalesced(ctx context.Context, ts []colligo.Tensor, bufferSize, root int) error {
	ops, err := broadcastCoalesced(g, ts, bufferSize, root)
	if err != nil {
		return err
	}
	return g.runAll(ctx, ops)
}

// list makes the n operations of a coalesced form. There is at least one, and they have one element type.
func list(g *Group, coll plan.Coll, n int, each func(i int) *op.Op) ([]*op.Op, error) {
	g = g.orOutside()
	if n == 0 {
		o := &op.Op{Coll: coll, Size: int32(g.size)}
		return nil, g.explain(o, 0, op.ErrNoTensors, false)
	}
	ops := make([]*op.Op, n)
	for i := range ops {
		ops[i] = each(i)
		if ops[i].DType != ops[0].DType {
			ops[i].Failf("tensors of %v and %v in one call", ops[0].DType, ops[i].DType)
		}
	}
	return launched(g, coll, ops, checkAll(g, ops))
}

// lists makes the operations of a coalesced form that has as many outputs as inputs.
func lists(g *Group, coll plan.Coll, outs, ins int, each func(i int) *op.Op) ([]*op.Op, error) {
	g = g.orOutside()
	return list(g, coll, max(outs, ins), func(i int) *op.Op {
		if outs != ins {
			o := &op.Op{Coll: coll, Size: int32(g.size)}
			o.Failf("%d outputs for %d inputs", outs, ins)
			return o
		}
		return each(i)
	})
}

func allReduceCoalesced(g *Group, ts []colligo.Tensor, by colligo.ReduceOp) ([]*op.Op, error) {
	ts = op.Alike(ts, by)
	return list(g, plan.AllReduce, len(ts), func(i int) *op.Op { return g.newCall().AllReduce(ts[i], by) })
}

func allGatherIntoCoalesced(g *Group, outs, ins []colligo.Tensor) ([]*op.Op, error) {
	return lists(g, plan.AllGather, len(outs), len(ins), func(i int) *op.Op { return g.newCall().AllGatherInto(outs[i], ins[i]) })
}

func allGatherCoalesced(g *Group, outs [][]colligo.Tensor, ins []colligo.Tensor) ([]*op.Op, error) {
	return lists(g, plan.AllGather, len(outs), len(ins), func(i int) *op.Op { return g.newCall().AllGather(outs[i], ins[i]) })
}

func reduceScatterTensorCoalesced(g *Group, outs, ins []colligo.Tensor, by colligo.ReduceOp) ([]*op.Op, error) {
	return lists(g, plan.ReduceScatter, len(outs), len(ins), func(i int) *op.Op {
		return g.newCall().ReduceScatterTensor(outs[i], ins[i], by)
	})
}

// defaultBuffer is c10d's bufferSize where it synchronizes the parameters of a module.
const defaultBuffer = 250 << 20

// broadcastCoalesced makes one broadcast of each bucket. On a device the tensors travel on their own.
func broadcastCoalesced(g *Group, ts []colligo.Tensor, bufferSize, root int) ([]*op.Op, error) {
	g = g.orOutside()
	if bufferSize == 0 {
		bufferSize = defaultBuffer
	}
	ops := make([]*op.Op, len(ts))
	for i, t := range ts {
		ops[i] = g.newCall().Broadcast(t, root)
		if bufferSize < 0 {
			ops[i].Failf("buckets of %d bytes", bufferSize)
		}
	}
	if err := checkAll(g, ops); err != nil || len(ops) == 0 || !ops[0].OnCPU() || g.size == 1 {
		return ops, err
	}
	var out []*op.Op
	for _, b := range buckets(ops, bufferSize) {
		if len(b) > 1 {
			out = append(out, op.Together(b))
		} else {
			out = append(out, b[0])
		}
	}
	return out, nil
}

// buckets deals operations to one bucket for each element type, and begins a new one when it is full. Buckets come in
// the order of their first operations.
func buckets(ops []*op.Op, size int) [][]*op.Op {
	type bucket struct {
		bytes int
		ops   []*op.Op
	}
	var all []*bucket
	open := map[colligo.DType]*bucket{}
	for _, o := range ops {
		b := open[o.DType]
		if b == nil {
			b = &bucket{}
			all, open[o.DType] = append(all, b), b
		}
		b.ops = append(b.ops, o)
		if b.bytes += o.Bytes(); b.bytes >= size {
			delete(open, o.DType)
		}
	}
	out := make([][]*op.Op, len(all))
	for i, b := range all {
		out[i] = b.ops
	}
	return out
}
