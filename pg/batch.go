package pg

import (
	"context"
	"fmt"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// Batch takes the operations of one coalescing block. Its methods have the arguments of Group's methods of the same name. They
// check them in the same way; a wrong argument is an error of the block. Nothing is read or written before f has returned.
//
// Everything that Group can start in the background is here, but for three kinds of calls:
//   - Barrier: operations of a block are in no order with one another, so a barrier among them would say nothing. One after the
//     block does what is wanted.
//   - RecvAny: a block has one Work, which cannot tell the sources of its receives. GPUs have no such receive at all.
//   - Coalesce and the coalesced forms, such as AllReduceCoalesced: they are blocks themselves. A list is given here tensor by
//     tensor.
type Batch struct {
	g     *Group
	calls []*op.Op
	room  *room
	over  bool
}

// room is memory for the calls of blocks: those of a block whose caller waits for it are used again.
type room struct {
	ops  [16]op.Op
	used int
	list [16]*op.Op
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// recycle gives the room back when the block is over.
func (r *room) recycle() {
	for i := range r.used {
		r.ops[i].Reset()
	}
	clear(r.list[:])
	r.used = 0
	rooms.Put(r)
}

// Coalesce launches every operation that f gives to the batch as one, and returns when all are done. On a GPU it returns
// when they are enqueued, as other blocking calls do.
//
// All ranks must give the same collectives on tensors of the same lengths in the same order. Sends and receives are matched
// as always. Types, reductions and roots may differ; all tensors must be on one device. Operations of a block are in no
// order with one another: memory that one of them writes no other may use.
//
// If f fails or an argument is wrong, nothing is launched, and the group goes on. Any later error ends the group.
//
// A block takes one sequence number. On the CPU small operations of one kind that follow one another share a plan. Many
// small tensors then cost little more than one. On a device no other operation of the group comes between those of a block.
// A backend that is a Grouper makes them one launch. c10d: _coalescing_manager.
func (g *Group) Coalesce(ctx context.Context, f func(b *Batch) error) error {
	r := rooms.Get().(*room)
	defer r.recycle()
	ops, err := collect(g, r, f)
	if err != nil {
		return err
	}
	return g.runAll(ctx, ops)
}

// CoalesceAsync starts a Coalesce; f has returned when it does. The Work is done when all operations are, and its results are
// those of all in their order. c10d: _coalescing_manager with async_ops.
func (g *Group) CoalesceAsync(ctx context.Context, f func(b *Batch) error) *Work {
	ops, err := collect(g, nil, f)
	return g.startAll(ctx, ops, err)
}

// collect has f fill a batch, whose calls lie in a room if there is one.
func collect(g *Group, r *room, f func(b *Batch) error) ([]*op.Op, error) {
	if !g.IsMember() {
		return nil, fmt.Errorf("pg: coalesce: %w", ErrNotMember)
	}
	b := &Batch{g: g, room: r}
	if r != nil {
		b.calls = r.list[:0]
	}
	err := f(b)
	b.over = true
	if err != nil {
		return nil, err
	}
	return b.calls, checkAll(g, b.calls)
}

// checkAll returns what is wrong with the operations of a block.
func checkAll(g *Group, ops []*op.Op) error {
	op.PairSelf(ops)
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
	o := b.room.take()
	o.Size, o.Rank = int32(b.g.size), int32(b.g.rank)
	b.calls = append(b.calls, o)
	return o
}

// take returns an operation: of the room while there is one in it, else a new one.
func (r *room) take() *op.Op {
	if r == nil || r.used == len(r.ops) {
		return new(op.Op)
	}
	r.used++
	return &r.ops[r.used-1]
}

// AllReduce adds a Group.AllReduce. c10d: all_reduce in a _coalescing_manager.
func (b *Batch) AllReduce(t colligo.Tensor, op colligo.ReduceOp) { b.call().AllReduce(t, op) }

// Broadcast adds a Group.Broadcast. c10d: broadcast in a _coalescing_manager.
func (b *Batch) Broadcast(t colligo.Tensor, root int) { b.call().Broadcast(t, root) }

// Reduce adds a Group.Reduce. NCCL: ncclReduce in a group.
func (b *Batch) Reduce(t colligo.Tensor, root int, op colligo.ReduceOp) {
	b.call().ReduceTo(t, root, op)
}

// AllGather adds a Group.AllGather. NCCL: broadcasts of each rank's part in a group.
func (b *Batch) AllGather(outs []colligo.Tensor, in colligo.Tensor) { b.call().AllGather(outs, in) }

// AllGatherIntoTensor adds a Group.AllGatherIntoTensor. c10d: all_gather_into_tensor in a _coalescing_manager.
func (b *Batch) AllGatherIntoTensor(out, in colligo.Tensor) { b.call().AllGatherInto(out, in) }

// ReduceScatter adds a Group.ReduceScatter. NCCL: reductions of each rank's part in a group.
func (b *Batch) ReduceScatter(out colligo.Tensor, ins []colligo.Tensor, op colligo.ReduceOp) {
	b.call().ReduceScatter(out, ins, op)
}

// ReduceScatterTensor adds a Group.ReduceScatterTensor. c10d: reduce_scatter_tensor in a _coalescing_manager.
func (b *Batch) ReduceScatterTensor(out, in colligo.Tensor, op colligo.ReduceOp) {
	b.call().ReduceScatterTensor(out, in, op)
}

// AllToAll adds a Group.AllToAll. NCCL: a send and a receive for each pair in a group.
func (b *Batch) AllToAll(outs, ins []colligo.Tensor) { b.call().AllToAll(outs, ins) }

// AllToAllSingle adds a Group.AllToAllSingle. NCCL: a send and a receive for each pair in a group.
func (b *Batch) AllToAllSingle(out, in colligo.Tensor, outSplits, inSplits []int) {
	b.call().AllToAllSingle(out, in, outSplits, inSplits)
}

// Gather adds a Group.Gather. NCCL: a send of each rank and the root's receives in a group.
func (b *Batch) Gather(outs []colligo.Tensor, in colligo.Tensor, root int) {
	b.call().Gather(outs, in, nil, root)
}

// GatherV adds a Group.GatherV. NCCL: a send of each rank and the root's receives in a group.
func (b *Batch) GatherV(outs []colligo.Tensor, in colligo.Tensor, counts []int, root int) {
	b.call().Gather(outs, in, counts, root)
}

// Scatter adds a Group.Scatter. NCCL: the root's sends and a receive of each rank in a group.
func (b *Batch) Scatter(out colligo.Tensor, ins []colligo.Tensor, root int) {
	b.call().Scatter(out, ins, nil, root)
}

// ScatterV adds a Group.ScatterV. NCCL: the root's sends and a receive of each rank in a group.
func (b *Batch) ScatterV(out colligo.Tensor, ins []colligo.Tensor, counts []int, root int) {
	b.call().Scatter(out, ins, counts, root)
}

// Send adds a Group.Send. c10d: isend in batch_isend_irecv.
func (b *Batch) Send(t colligo.Tensor, to, tag int) { b.call().Send(t, to, tag) }

// Recv adds a Group.Recv. c10d: irecv in batch_isend_irecv.
func (b *Batch) Recv(t colligo.Tensor, from, tag int) { b.call().Recv(t, from, tag) }
