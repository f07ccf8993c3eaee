package pg

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// Batch takes the operations of one coalescing block. Its methods are those of Group, and check their arguments in the same
// way; what they refuse is an error of the block. Nothing is read or written before the block has ended.
type Batch struct {
	g     *Group
	calls []*op.Op
	room  []op.Op // memory for calls to come
	over  bool
}

// Coalesce launches every operation that f gives to the batch as one, and returns when all are done. All ranks must give
// the same collectives on tensors of the same lengths in the same order; sends and receives are matched as always. If f fails,
// or an argument is wrong, nothing is launched. All tensors must be on one device; types, reductions and roots may differ.
// What one operation writes no other of the block may use: their order is not told, and small ones happen at once.
//
// A block takes one sequence number. On the CPU small operations of one kind that follow one another share a plan, so that
// many small tensors cost little more than one. On a device all are enqueued without another operation of the group between
// them, and where the backend is a Grouper as one launch.
// c10d: _coalescing_manager.
func (g *Group) Coalesce(ctx context.Context, f func(b *Batch) error) error {
	ops, err := collect(g, f)
	if err != nil {
		return err
	}
	return g.runAll(ctx, ops)
}

// CoalesceAsync starts a Coalesce. The Work is done when all operations are. c10d: _coalescing_manager with async_ops.
func (g *Group) CoalesceAsync(ctx context.Context, f func(b *Batch) error) *Work {
	ops, err := collect(g, f)
	return g.startAll(ctx, ops, err)
}

// collect has f fill a batch.
func collect(g *Group, f func(b *Batch) error) ([]*op.Op, error) {
	if !g.IsMember() {
		return nil, fmt.Errorf("pg: coalesce: %w", ErrNotMember)
	}
	b := &Batch{g: g}
	err := f(b)
	b.over = true
	if err != nil {
		return nil, err
	}
	return b.calls, checkAll(g, b.calls)
}

// checkAll returns what is wrong with the operations of a block.
func checkAll(g *Group, ops []*op.Op) error {
	for i, o := range ops {
		if o.DeviceID() != ops[0].DeviceID() {
			o.Failf("tensors on %v and %v in one block", ops[0].DeviceID(), o.DeviceID())
		}
		if err := o.Wrong(); err != nil {
			return g.explain(o, 0, fmt.Errorf("operation %d of %d in a block: %w", i+1, len(ops), err), false)
		}
	}
	return nil
}

// call adds an operation whose arguments one of its methods takes.
func (b *Batch) call() *op.Op {
	if b.over {
		panic("pg: a batch is used after its block has ended")
	}
	const many = 16 // are allocated at once
	if len(b.room) == 0 {
		b.room = make([]op.Op, many)
	}
	o := &b.room[0]
	b.room = b.room[1:]
	o.Size, o.Rank = int32(b.g.size), int32(b.g.rank)
	b.calls = append(b.calls, o)
	return o
}

// AllReduce adds a Group.AllReduce.
func (b *Batch) AllReduce(t colligo.Tensor, by colligo.ReduceOp) { b.call().AllReduce(t, by) }

// Broadcast adds a Group.Broadcast.
func (b *Batch) Broadcast(t colligo.Tensor, root int) { b.call().Broadcast(t, root) }

// Reduce adds a Group.Reduce.
func (b *Batch) Reduce(t colligo.Tensor, root int, by colligo.ReduceOp) {
	b.call().ReduceTo(t, root, by)
}

// AllGather adds a Group.AllGather.
func (b *Batch) AllGather(outs []colligo.Tensor, in colligo.Tensor) { b.call().AllGather(outs, in) }

// AllGatherIntoTensor adds a Group.AllGatherIntoTensor.
func (b *Batch) AllGatherIntoTensor(out, in colligo.Tensor) { b.call().AllGatherInto(out, in) }

// ReduceScatter adds a Group.ReduceScatter.
func (b *Batch) ReduceScatter(out colligo.Tensor, ins []colligo.Tensor, by colligo.ReduceOp) {
	b.call().ReduceScatter(out, ins, by)
}

// ReduceScatterTensor adds a Group.ReduceScatterTensor.
func (b *Batch) ReduceScatterTensor(out, in colligo.Tensor, by colligo.ReduceOp) {
	b.call().ReduceScatterTensor(out, in, by)
}

// AllToAll adds a Group.AllToAll.
func (b *Batch) AllToAll(outs, ins []colligo.Tensor) { b.call().AllToAll(outs, ins) }

// AllToAllSingle adds a Group.AllToAllSingle.
func (b *Batch) AllToAllSingle(out, in colligo.Tensor, outSplits, inSplits []int) {
	b.call().AllToAllSingle(out, in, outSplits, inSplits)
}

// Gather adds a Group.Gather.
func (b *Batch) Gather(outs []colligo.Tensor, in colligo.Tensor, root int) {
	b.call().Gather(outs, in, nil, root)
}

// Scatter adds a Group.Scatter.
func (b *Batch) Scatter(out colligo.Tensor, ins []colligo.Tensor, root int) {
	b.call().Scatter(out, ins, nil, root)
}

// Send adds a Group.Send.
func (b *Batch) Send(t colligo.Tensor, to, tag int) { b.call().Send(t, to, tag) }

// Recv adds a Group.Recv.
func (b *Batch) Recv(t colligo.Tensor, from, tag int) { b.call().Recv(t, from, tag) }
