package pg

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
)

// Batch takes the operations of one coalescing block. Its methods are those of Group, and check their arguments in the same
// way; what they refuse is an error of the block. Nothing is read or written before the block has ended.
type Batch struct {
	g     *Group
	calls []request
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
	rs, err := g.collect(f)
	if err != nil {
		return err
	}
	defer recycle(rs)
	return g.runAll(ctx, rs)
}

// spareCalls is lists of calls, of blocks that are over for blocks to come: a request is large.
var spareCalls = sync.Pool{New: func() any { return new([]request) }}

const mostRecycled = 64

// recycle keeps a list for another block.
func recycle(rs []request) {
	if cap(rs) <= mostRecycled {
		clear(rs)
		rs = rs[:0]
		spareCalls.Put(&rs)
	}
}

// CoalesceAsync starts a Coalesce. The Work is done when all operations are. c10d: _coalescing_manager with async_ops.
func (g *Group) CoalesceAsync(ctx context.Context, f func(b *Batch) error) *Work {
	rs, err := g.collect(f)
	return g.startAll(ctx, rs, err)
}

// collect has f fill a batch.
func (g *Group) collect(f func(b *Batch) error) ([]request, error) {
	if !g.IsMember() {
		return nil, fmt.Errorf("pg: coalesce: %w", ErrNotMember)
	}
	b := &Batch{g: g, calls: *spareCalls.Get().(*[]request)}
	err := f(b)
	b.over = true
	if err != nil {
		return nil, err
	}
	return b.calls, g.checkAll(b.calls)
}

// checkAll returns what is wrong with the operations of a block.
func (g *Group) checkAll(rs []request) error {
	for i := range rs {
		r := &rs[i]
		if r.device != rs[0].device {
			r.failf("tensors on %v and %v in one block", rs[0].device, r.device)
		}
		if r.err != nil {
			return g.explain(r, 0, fmt.Errorf("operation %d of %d in a block: %w", i+1, len(rs), r.err), false)
		}
	}
	return nil
}

func (b *Batch) add(r request) {
	if b.over {
		panic("pg: a batch is used after its block has ended")
	}
	b.calls = append(b.calls, r)
}

// AllReduce adds a Group.AllReduce.
func (b *Batch) AllReduce(t colligo.Tensor, op colligo.ReduceOp) { b.add(b.g.allReduce(t, op)) }

// Broadcast adds a Group.Broadcast.
func (b *Batch) Broadcast(t colligo.Tensor, root int) { b.add(b.g.broadcast(t, root)) }

// Reduce adds a Group.Reduce.
func (b *Batch) Reduce(t colligo.Tensor, root int, op colligo.ReduceOp) {
	b.add(b.g.reduce(t, root, op))
}

// AllGather adds a Group.AllGather.
func (b *Batch) AllGather(outs []colligo.Tensor, in colligo.Tensor) { b.add(b.g.allGather(outs, in)) }

// AllGatherIntoTensor adds a Group.AllGatherIntoTensor.
func (b *Batch) AllGatherIntoTensor(out, in colligo.Tensor) { b.add(b.g.allGatherInto(out, in)) }

// ReduceScatter adds a Group.ReduceScatter.
func (b *Batch) ReduceScatter(out colligo.Tensor, ins []colligo.Tensor, op colligo.ReduceOp) {
	b.add(b.g.reduceScatter(out, ins, op))
}

// ReduceScatterTensor adds a Group.ReduceScatterTensor.
func (b *Batch) ReduceScatterTensor(out, in colligo.Tensor, op colligo.ReduceOp) {
	b.add(b.g.reduceScatterTensor(out, in, op))
}

// AllToAll adds a Group.AllToAll.
func (b *Batch) AllToAll(outs, ins []colligo.Tensor) { b.add(b.g.allToAll(outs, ins)) }

// AllToAllSingle adds a Group.AllToAllSingle.
func (b *Batch) AllToAllSingle(out, in colligo.Tensor, outSplits, inSplits []int) {
	b.add(b.g.allToAllSingle(out, in, outSplits, inSplits))
}

// Gather adds a Group.Gather.
func (b *Batch) Gather(outs []colligo.Tensor, in colligo.Tensor, root int) {
	b.add(b.g.gather(outs, in, nil, root))
}

// Scatter adds a Group.Scatter.
func (b *Batch) Scatter(out colligo.Tensor, ins []colligo.Tensor, root int) {
	b.add(b.g.scatter(out, ins, nil, root))
}

// Send adds a Group.Send.
func (b *Batch) Send(t colligo.Tensor, to, tag int) { b.add(b.g.send(t, to, tag)) }

// Recv adds a Group.Recv.
func (b *Batch) Recv(t colligo.Tensor, from, tag int) { b.add(b.g.receive(t, from, tag)) }

// runAll carries out checked operations as one.
func (g *Group) runAll(ctx context.Context, rs []request) error {
	g = g.orOutside()
	if done, err := g.trivialAll(ctx, rs); done {
		return err
	}
	if rs[0].device.Kind != colligo.CPU {
		_, err := g.onDeviceAll(ctx, rs, false)
		return err
	}
	w, drive, err := g.enqueueAll(ctx, g.merge(rs), false)
	if err != nil {
		return g.explain(&rs[0], 0, err, true)
	}
	if drive {
		g.drive(&w.operation)
	} else {
		g.mesh.Wake()
	}
	<-w.done
	return w.err
}

// startAll does so in the background, unless the arguments are wrong.
func (g *Group) startAll(ctx context.Context, rs []request, wrong error) *Work {
	g = g.orOutside()
	if wrong != nil {
		return finishedWork(colligo.NoRank, wrong)
	}
	results := resultsOf(rs)
	if done, err := g.trivialAll(ctx, rs); done {
		w := finishedWork(colligo.NoRank, err)
		w.group, w.results = g, results
		w.op.as(OpCoalesced)
		return w
	}
	if rs[0].device.Kind != colligo.CPU {
		p, err := g.onDeviceAll(ctx, rs, true)
		if err != nil {
			return finishedWork(colligo.NoRank, err)
		}
		return &Work{group: g, op: &operation{request: rs[0]}, device: p, results: results}
	}
	w, drive, err := g.enqueueAll(ctx, g.merge(rs), false)
	if err != nil {
		return finishedWork(colligo.NoRank, g.explain(&rs[0], 0, err, true))
	}
	if drive {
		go g.drive(nil)
	} else {
		g.mesh.Wake()
	}
	op := &w.operation
	if len(w.ops) == 1 {
		op = w.ops[0]
	}
	return &Work{group: g, op: op, done: w.done, results: results}
}

// resultsOf returns the tensors that will hold the results of a block.
func resultsOf(rs []request) []colligo.Tensor {
	var all []colligo.Tensor
	for i := range rs {
		all = append(all, rs[i].results()...)
	}
	return all
}

// trivialAll is trivial for a block; one without operations is done. It ends calls with a NaN too, where they are looked for.
func (g *Group) trivialAll(ctx context.Context, rs []request) (done bool, err error) {
	done = true
	for i := range rs {
		r := &rs[i]
		r.rec.own, r.rec.skip = isOwn(ctx), 3 // trivialAll, runAll or startAll, and a method
		if done, err = g.trivial(r); !done && err == nil {
			err = g.refuseNaN(ctx, r)
		}
		if r.rec.skip--; err != nil {
			return true, err
		}
	}
	return done, nil
}

// whole is a block: an operation that is over when those are that it is made of.
type whole struct {
	operation
	ops  []*operation
	left int // operations not over
}

// enqueueAll is enqueue for operations between which no other may come. If each is set they have done channels of their own.
func (g *Group) enqueueAll(ctx context.Context, rs []request, each bool) (*whole, bool, error) {
	ops := make([]operation, len(rs))
	w := &whole{ops: make([]*operation, len(rs)), left: len(rs)}
	w.done = make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, false, g.err
	}
	numbered := !rs[0].rec.own
	for i := range rs {
		op := &ops[i]
		op.request, op.ctx, op.lease, op.block, w.ops[i] = rs[i], ctx, g.lease(), w, op
		if !op.isPair() {
			g.seq, numbered = after(g.seq, numbered), false
		}
		if op.seq = g.seq; each {
			op.done = make(chan struct{})
		}
	}
	g.admitAll(w)
	drive := !g.driving
	g.driving = true
	g.queue = append(g.queue, w.ops...)
	g.fresh.Store(true)
	return w, drive, nil
}

// admitAll records the operations of a block. As in c10d its collectives have one number, and so have its sends and
// receives; an entry of its own stands for all if there are several. The caller, enqueueAll, holds g.mu.
func (g *Group) admitAll(w *whole) {
	const skip = 2   // admitAll and enqueueAll
	var seen [2]bool // a collective, a send or receive: the first of each kind has a number
	for _, op := range w.ops {
		first := &seen[0]
		if op.isPair() {
			first = &seen[1]
		}
		if *first {
			g.admitMore(&op.request, within(op.ctx, op.lease.limit), skip)
		} else {
			g.admit(&op.request, within(op.ctx, op.lease.limit), skip)
		}
		*first = true
	}
	first := w.ops[0]
	if len(w.ops) == 1 {
		w.rec.own = true // nothing is recorded beside the operation
		return
	}
	w.request = request{size: g.size, rec: record{own: first.rec.own, skip: first.rec.skip, onlyPairs: !seen[0]}}
	w.as(OpCoalesced)
	g.admitMore(&w.request, within(first.ctx, first.lease.limit), skip)
}

// admitMore is admit under the number of the operation before.
func (g *Group) admitMore(r *request, limit time.Duration, skip int) {
	if r.rec.own {
		return
	}
	r.rec.kind, r.rec.bytes = r.opType(), r.volume()
	g.ledger.calls++
	g.enter(r, limit, skip+r.rec.skip+1)
}

// ended counts an operation of the block; the last ends it, with the error of the first that failed.
func (w *whole) ended(g *Group, err error) {
	if w.err == nil {
		w.err = err
	}
	if w.left--; w.left > 0 {
		return
	}
	g.conclude(&w.rec, w.err)
	w.over = true
	close(w.done)
}
