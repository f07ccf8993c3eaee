package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// operation is one pending call.
type operation struct {
	request
	ctx       context.Context
	seq       uint64 // place of the collective; for a pair that of the last collective before it
	plan      *plan.Plan
	run       engine.Run
	pair      pairState
	begun     bool
	lease     lease
	check     *control.Check // of the fingerprints of all ranks, at debug level DETAIL
	owed      int            // the peer at first, which a receive from any peer changes
	deadline  time.Time
	began     time.Time
	suspectAt time.Time
	stop      func() bool   // ends the watch of ctx
	done      chan struct{} // nil if only the driving caller waits for it
	over      bool
	failure   error // this operation's own, whatever made the group fail first
	late      error // what it fails with if the group's error came of its being late or of a peer that is gone
	err       error
}

func (op *operation) reset() {
	run := op.run
	run.Reset()
	*op = operation{run: run}
}

func (op *operation) isPair() bool { return op.coll == plan.Send || op.coll == plan.Recv }

// drive advances every operation of the group on this goroutine until the given one is over; with nil until none is
// left. Only one goroutine drives at a time. If others' operations are left at the end, a new goroutine takes over.
func (g *Group) drive(until *operation) {
	idle := 0
	for {
		g.vitals.beats.Add(1)
		moved := g.round()
		if until != nil && until.over || g.nothingLeft() {
			break
		}
		if moved {
			idle = 0
			continue
		}
		if idle++; (idle >= spin || g.cancelled.Load()) && g.expired() {
			continue
		}
		g.mesh.Wait(idle, g.nearest())
	}
	g.handOver()
}

// spin is the idle rounds before the clock is looked at.
const spin = 16

func (g *Group) nothingLeft() bool {
	return len(g.active) == 0 && len(g.pairs) == 0 && !g.fresh.Load()
}

// handOver ends the driving, or gives it to a new goroutine if there is work left.
func (g *Group) handOver() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.nothingLeft() {
		go g.drive(nil)
		return
	}
	g.driving = false
	if g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// round looks at everything once and reports whether anything moved.
func (g *Group) round() bool {
	if g.fresh.Load() {
		g.accept()
	}
	if a := g.abort.Load(); a != nil && !g.drains(a) {
		g.endAll()
		return true
	}
	moved := false
	if len(g.active) > 0 {
		moved = g.advance(g.active[0])
	}
	return g.advancePairs() || moved
}

// accept takes over what was enqueued.
func (g *Group) accept() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.active) == 0 {
		g.active = g.room
	}
	for i, op := range g.queue {
		g.watch(op)
		if op.isPair() {
			op.owed = op.peer
			g.control.Progress.Begin(op.coll == plan.Send, op.owed)
			g.pairs = append(g.pairs, op)
		} else {
			g.active = append(g.active, op)
		}
		g.queue[i] = nil
	}
	if cap(g.active) > cap(g.room) {
		g.room = g.active[:0]
	}
	g.queue = g.queue[:0]
	g.fresh.Store(false)
}

// advance moves the collective at the head of the order.
func (g *Group) advance(op *operation) bool {
	if !op.begun {
		agreed, err := true, error(nil)
		if g.detailed() {
			agreed, err = g.agreed(op)
		}
		if agreed && err == nil {
			err = g.begin(op)
		}
		if !agreed && err == nil {
			return false
		}
		if err != nil {
			g.failAt(g.explain(&op.request, op.seq, err, false), op.seq, true)
			return true
		}
	}
	moved, err := op.run.Advance()
	if err != nil {
		return g.broken(op, err) || moved
	}
	if op.run.Done() {
		op.unpack()
		g.active[0] = nil
		g.active = g.active[1:]
		g.end(op, nil)
		return true
	}
	return moved
}

// begin plans an operation and starts its run.
func (g *Group) begin(op *operation) error {
	op.begun = true
	g.ledger.begin(&op.rec)
	g.port.call = g.call(op)
	g.control.Progress.Enter(g.port.call)
	p, err := g.planFor(&op.request)
	if err != nil {
		return err
	}
	op.plan = p
	g.port.shape = &p.Shape
	if n := p.Scratch * op.elem; len(g.scratch) < n {
		g.scratch = make([]byte, n)
	}
	if err := op.pack(); err != nil {
		return err
	}
	op.run.Start(p, &g.port, op.kernel(), op.in, op.out, g.scratch)
	return nil
}

// watch lets a cancelled context fail the group. Contexts that cannot end cost nothing.
func (g *Group) watch(op *operation) {
	if op.ctx != nil && op.ctx.Done() != nil {
		op.stop = context.AfterFunc(op.ctx, func() {
			g.cancelled.Store(true)
			g.mesh.Wake()
		})
	}
}

// end completes an operation.
func (g *Group) end(op *operation, err error) {
	if op.stop != nil {
		op.stop()
	}
	op.over, op.err = true, err
	g.limits.ended(op.lease)
	if op.isPair() {
		g.control.Progress.End(op.coll == plan.Send, op.owed)
	} else if err == nil {
		g.control.Progress.Complete(op.seq)
	}
	g.conclude(&op.rec, err)
	op.release()
	if op.block != nil {
		op.block.ended(g, err)
	}
	if op.done != nil {
		close(op.done) // a waiting caller may use op again from here on
	}
}

// endAll completes everything with the group's error.
func (g *Group) endAll() {
	cause := g.Err()
	for _, ops := range [2][]*operation{g.active, g.pairs} {
		for i, op := range ops {
			g.end(op, g.ownError(op, cause))
			ops[i] = nil
		}
	}
	g.active, g.pairs = g.active[:0], g.pairs[:0]
}

// ownError is what a pending operation reports when the group has failed: the error itself if it is about that operation,
// else that error as the cause.
func (g *Group) ownError(op *operation, cause error) error {
	if op.failure != nil {
		return op.failure
	}
	if op.late != nil && (cause == op.late || cause == g.cut.err) {
		return op.late
	}
	var e *colligo.OpError
	if errors.As(cause, &e) && e.Group == g.name && e.Rank == g.rank && e.Seq == numberOf(op.seq) && e.Op == op.coll.String() {
		return cause
	}
	return g.explain(&op.request, op.sequence(), cause, true)
}

func (op *operation) sequence() uint64 {
	if op.isPair() {
		return 0
	}
	return op.seq
}

// nearest returns the earliest deadline of what is pending, and sets those not yet known. Where a peer or the group has
// ended it returns until when to wait for what may follow.
func (g *Group) nearest() time.Time {
	var first time.Time
	earlier := func(t time.Time) {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	if g.cut.err != nil {
		earlier(g.cut.at.Add(grace))
	}
	if a := g.abort.Load(); a != nil {
		earlier(a.at.Add(drain))
		if len(g.active) > 0 {
			g.active[0].limit()
			earlier(g.active[0].deadline)
		}
		return first
	}
	if l := g.died.Load(); l != nil {
		earlier(l.at.Add(drain))
	}
	if len(g.active) > 0 {
		op := g.active[0]
		op.limit()
		earlier(op.deadline)
		earlier(op.suspectAt)
	}
	if due := g.duePairs(); !due.IsZero() {
		earlier(due)
	}
	return first
}

// expired fails the group if a deadline has passed or a context was cancelled.
func (g *Group) expired() bool {
	var late *operation
	var cause error
	now := time.Now()
	if g.cut.err != nil && now.Sub(g.cut.at) >= grace {
		return g.failAt(g.cut.err, g.sequenceOf(g.cut.err), true)
	}
	if g.abort.Load() != nil {
		return false // what comes before the operation that failed may still complete
	}
	if len(g.active) > 0 {
		op := g.active[0]
		if late, cause = op.expired(now); late == nil && !op.deadline.IsZero() && !now.Before(op.suspectAt) {
			g.suspect(op, now)
		}
	}
	if late == nil {
		late, cause = g.expiredPair(now)
	}
	if l := g.died.Load(); l != nil && now.Sub(l.at) >= drain {
		g.fail(g.explainPending(classify(&transport.PeerError{Peer: l.peer, Err: l.err})), true)
		return true
	}
	if late == nil && g.cancelled.Load() {
		late, cause = g.givenUp()
	}
	if late == nil {
		return false
	}
	if cause != nil {
		late.late = g.explain(&late.request, late.sequence(), cause, false)
		g.fail(late.late, true)
	} else {
		g.timedOut(late)
	}
	return true
}

// givenUp returns a collective that waits for its turn though its context has ended, and why.
func (g *Group) givenUp() (*operation, error) {
	for _, op := range g.active[min(1, len(g.active)):] {
		if op.stop == nil || op.ctx.Err() == nil {
			continue
		}
		err := fmt.Errorf("waited for %s: %w", describe(g.port.call), context.Cause(op.ctx))
		if errors.Is(op.ctx.Err(), context.DeadlineExceeded) {
			err = &classed{err, colligo.ErrTimeout}
		}
		return op, err
	}
	return nil, nil
}

// explainPending words a cause that is not about one operation as the failure of the first that is pending.
func (g *Group) explainPending(cause error) error {
	var first *operation
	g.pending(func(op *operation) {
		if first == nil {
			first = op
		}
	})
	if first == nil {
		return cause
	}
	return g.explain(&first.request, first.sequence(), cause, false)
}

// pending calls f for the collective at the head and for every pair.
func (g *Group) pending(f func(*operation)) {
	if len(g.active) > 0 {
		f(g.active[0])
	}
	for _, op := range g.pairs {
		f(op)
	}
}
