package streamorder

import (
	"context"
	"slices"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
)

// block is the calls of a pg.Coalesce or pg.BatchIsendIrecv, which End enqueues: first the collectives, then the sends, then
// the receives. So ranks that send to one another in a block do not wait for each other, whatever the order of their calls.
type block struct {
	open, async bool
	out         cuda.Stream     // of its sends, beside the block's; 0 if there is none yet
	ctx, inside context.Context // of the caller, and of the calls
	calls       []backend.Call
}

// Begin implements backend.Grouper.
func (o *Order) Begin(ctx context.Context, n int, async bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.block.open, o.block.async, o.block.ctx = true, async, ctx
	return nil
}

// join takes a call of the block.
func (o *Order) join(ctx context.Context, t cuda.Thread, c *backend.Call) error {
	if err := o.carrier.Check(t, c, Of(ctx)); err != nil {
		return err
	}
	o.block.inside = ctx
	o.block.calls = append(o.block.calls, *c)
	return nil
}

// End implements backend.Grouper.
func (o *Order) End(ctx context.Context) (backend.Pending, error) {
	t, err := o.device.Enter()
	if err != nil {
		return nil, err
	}
	defer t.Leave()
	o.mu.Lock()
	defer o.mu.Unlock()
	x := &o.block
	defer func() {
		o.carrier.DropBlock()
		clear(x.calls)
		*x = block{calls: x.calls[:0]}
	}()
	if err := o.Failure.Err(); err != nil || len(x.calls) == 0 {
		return nil, err
	}
	return o.endOn(t, x)
}

// endOn enqueues a block that is not empty, with the order's lock held.
func (o *Order) endOn(t cuda.Thread, x *block) (backend.Pending, error) {
	q, s := x.queue(), Of(x.ctx)
	o.calls = q
	var w *timer
	var err error
	if x.async {
		if s, err = o.fork(t, q, s); err != nil {
			return nil, err
		}
	}
	if x.timed() {
		if w, err = o.startTimer(t, s); err != nil {
			return nil, err
		}
	}
	if err := o.enqueueBlock(t, x, s); err != nil {
		return nil, err
	}
	if x.async || w != nil {
		return o.pending(t, q, s, w)
	}
	n := uint64(0)
	for i := range x.calls {
		n++
		if at := QueueOf(x.calls[i].Coll); i+1 == len(x.calls) || QueueOf(x.calls[i+1].Coll) != at { // the last of its queue
			if err := o.markCall(t, at, s, n); err != nil {
				return nil, err
			}
			n = 0
		}
	}
	return nil, o.Throttle(t, s, o.Commands*len(x.calls))
}

// enqueueBlock puts the calls on stream s. Where a send may have to wait for its receiver, sends have a stream of their own
// meanwhile.
func (o *Order) enqueueBlock(t cuda.Thread, x *block, s cuda.Stream) error {
	slices.SortStableFunc(x.calls, func(p, q backend.Call) int { return o.position(&p) - o.position(&q) })
	calls, err := o.enqueueOwn(t, x.calls, s)
	if err != nil || len(calls) == 0 {
		return err
	}
	out := s
	if !o.carrier.BeginBlock(calls) {
		if out, err = o.Beside(t, s); err != nil {
			return err
		}
	}
	for i := range calls {
		c, on := &calls[i], s
		q := QueueOf(c.Coll)
		if q == Sends {
			on = out
		}
		if err := o.take(t, q, on); err != nil {
			return err
		}
		if err := o.carrier.Enqueue(x.inside, t, c, on); err != nil {
			return err
		}
		o.progress[q].ran++
	}
	if err := o.carrier.EndBlock(t, s); err != nil || x.out == 0 {
		return err
	}
	return Follow(t, s, x.out, o.async[Sends].Event)
}

// enqueueOwn copies the messages that a rank sends to itself on s, each send's to the receive of the same number. It returns the
// other calls.
func (o *Order) enqueueOwn(t cuda.Thread, calls []backend.Call, s cuda.Stream) ([]backend.Call, error) {
	own := func(c backend.Call) bool { return QueueOf(c.Coll) != Collectives && c.Peer == o.rank }
	if !slices.ContainsFunc(calls, own) {
		return calls, nil
	}
	var ends [NumQueues][]backend.Call
	others := slices.Clone(calls)
	for _, c := range calls {
		if own(c) {
			ends[QueueOf(c.Coll)] = append(ends[QueueOf(c.Coll)], c)
		}
	}
	for _, q := range [2]Queue{Sends, Receives} {
		if err := o.take(t, q, s); err != nil {
			return nil, err
		}
		o.progress[q].ran += uint64(len(ends[q]))
	}
	for i, to := range ends[Receives] {
		from := ends[Sends][i].In
		if from.Size() == 0 {
			continue
		}
		if err := t.Copy(cuda.Pointer(to.Out.Addr()), cuda.Pointer(from.Addr()), from.Size(), s); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(others, own), nil
}

// position orders the calls of a block. Collectives come first. Then come sends to the next rank, to the rank after it and so
// on. Receives from the rank before come last, then from the rank before that and so on. So ranks that all send to one another
// do not wait in a circle, each for a peer that waits for the next.
func (o *Order) position(c *backend.Call) int {
	switch QueueOf(c.Coll) {
	case Sends:
		return o.size + (c.Peer-o.rank+o.size)%o.size
	case Receives:
		return 2*o.size + (o.rank-c.Peer+o.size)%o.size
	}
	return 0
}

// Beside returns the stream of the block's sends beside the block's stream s.
func (o *Order) Beside(t cuda.Thread, s cuda.Stream) (cuda.Stream, error) {
	x := &o.block
	if x.out != 0 {
		return x.out, nil
	}
	var err error
	x.out, err = o.fork(t, Sends, s)
	return x.out, err
}

// queue returns the queue that asynchronous calls of the block begin in.
func (x *block) queue() Queue {
	for i := range x.calls {
		if q := QueueOf(x.calls[i].Coll); q == Collectives {
			return q
		}
	}
	return Receives
}

func (x *block) timed() bool {
	for i := range x.calls {
		if x.calls[i].Timed {
			return true
		}
	}
	return false
}
