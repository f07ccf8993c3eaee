package peer

import (
	"context"
	"slices"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// block is the calls of a pg.Coalesce or pg.BatchIsendIrecv, which End enqueues: first the collectives, then the sends, then the
// receives. So ranks that send to one another in a block do not wait for each other, whatever the order of their calls.
type block struct {
	open, async bool
	gathers     bool            // messages are launched together
	sendRecvs   bool            // they are two rendezvous messages that a peer and this rank send each other
	out         cuda.Stream     // beside the block's, 0 if there is none yet
	ctx, inside context.Context // of the caller, and of the calls
	calls       []pg.Call
}

// Begin implements pg.Grouper.
func (b *backend) Begin(ctx context.Context, n int, async bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.block.open, b.block.async, b.block.ctx = true, async, ctx
	return nil
}

// join takes a call of the block.
func (b *backend) join(ctx context.Context, t cuda.Thread, c *pg.Call) error {
	if err := first(b.checkCall(c), b.staging.refuses(t, c.Coll, streamOf(ctx))); err != nil {
		return err
	}
	b.block.inside = ctx
	b.block.calls = append(b.block.calls, *c)
	return nil
}

// End implements pg.Grouper.
func (b *backend) End(ctx context.Context) (pg.Pending, error) {
	t, err := b.device.Enter()
	if err != nil {
		return nil, err
	}
	defer t.Leave()
	b.mu.Lock()
	defer b.mu.Unlock()
	x := &b.block
	defer func() {
		b.dropMessages()
		clear(x.calls)
		*x = block{calls: x.calls[:0]}
	}()
	if err := b.failure.get(); err != nil || len(x.calls) == 0 {
		return nil, err
	}
	return b.endOn(t, x)
}

// endOn is End on a thread. The caller holds b.mu.
func (b *backend) endOn(t cuda.Thread, x *block) (pg.Pending, error) {
	q, s := x.queue(), streamOf(x.ctx)
	var w timer
	var err error
	if x.async {
		if s, err = b.fork(t, q, s); err == nil && x.timed() {
			w, err = b.startTimer(t, s)
		}
	}
	if err = first(err, b.enqueueBlock(t, x, s)); err != nil {
		return nil, err
	}
	if x.async {
		return b.pending(t, q, s, w)
	}
	return nil, b.weigh(t, s, opCommands*len(x.calls))
}

// enqueueBlock puts the calls on stream s. Messages go together, if no send can have to wait for its receiver; else the sends have
// a stream of their own meanwhile, as rendezvous messages that are sent have.
func (b *backend) enqueueBlock(t cuda.Thread, x *block, s cuda.Stream) error {
	slices.SortStableFunc(x.calls, func(p, q pg.Call) int { return b.streamOrderOf(&p) - b.streamOrderOf(&q) })
	out := s
	if x.gathers = b.gatherable(x); !x.gathers {
		var err error
		if out, err = b.beside(t, s); err != nil {
			return err
		}
	}
	x.sendRecvs = x.gathers && b.isSendRecv(x.calls)
	for i := range x.calls {
		c, on := &x.calls[i], s
		q := queueOf(c.Coll)
		if q == sends {
			on = out
		}
		if err := first(b.takeStreamOrder(t, q, on), b.enqueue(x.inside, t, c, on)); err != nil {
			return err
		}
		b.progress[q].ran++
	}
	if err := b.post(t, s); err != nil || x.out == 0 {
		return err
	}
	return follow(t, s, x.out, b.streams.async[sends].event)
}

// streamOrderOf orders the calls of a block: collectives, sends to the next rank, to the one after it and so on, receives from the rank
// before, from the one before that and so on. So ranks that all send to one another do not wait in a circle, each for a peer that
// waits for the next.
func (b *backend) streamOrderOf(c *pg.Call) int {
	switch queueOf(c.Coll) {
	case sends:
		return b.size + (c.Peer-b.rank+b.size)%b.size
	case receives:
		return 2*b.size + (b.rank-c.Peer+b.size)%b.size
	}
	return 0
}

// beside returns the stream beside a block's.
func (b *backend) beside(t cuda.Thread, s cuda.Stream) (cuda.Stream, error) {
	x := &b.block
	if x.out != 0 {
		return x.out, nil
	}
	var err error
	x.out, err = b.fork(t, sends, s)
	return x.out, err
}

// gatherable reports whether all sends of the block have room in the eager buffers, if these are empty. Rendezvous messages need little.
func (b *backend) gatherable(x *block) bool {
	var slots [maxRanks]int
	for i := range x.calls {
		c := &x.calls[i]
		if c.Coll != plan.Send {
			continue
		}
		bytes := c.Count * c.DType.Size()
		if b.isRendezvous(bytes) {
			bytes = 0
		}
		if b.staging != nil || !b.postable(bytes) {
			return false
		}
		if slots[c.Peer] += b.eagerParts(bytes); slots[c.Peer] > eagerSlots {
			return false
		}
	}
	return true
}

// queue returns the queue that asynchronous calls of the block begin in.
func (x *block) queue() queue {
	for i := range x.calls {
		if q := queueOf(x.calls[i].Coll); q == collectives {
			return q
		}
	}
	return receives
}

func (x *block) timed() bool {
	for i := range x.calls {
		if x.calls[i].Timed {
			return true
		}
	}
	return false
}

var _ pg.Grouper = (*backend)(nil)
