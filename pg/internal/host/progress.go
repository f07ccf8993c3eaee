package host

import (
	"context"
	"time"

	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// progress is the progress engine: it advances every operation of the group on this goroutine until the given one is over.
// With nil it goes on until none is left. Only one goroutine runs it at a time. If other operations are left at the end, a
// new goroutine takes over.
func (b *Backend) progress(until *op.Op) {
	if first := b.first; first != nil {
		b.first = nil
		b.own(first)
	}
	idle := 0
	for {
		moved := b.poll()
		if until != nil && until.Over || b.nothingLeft() {
			break
		}
		if moved {
			idle = 0
			continue
		}
		idle++
		if b.spins(idle) {
			continue
		}
		b.beats.Add(1)
		if (idle >= spin || b.cancelled.Load() || b.inquired.Load()) && b.expired() {
			continue
		}
		b.watch()
		b.mesh.Wait(idle, b.nearest())
	}
	b.handOver()
}

// spins has the mesh pass a moment without a look at the clock, and reports whether it did. It does not where a context or a
// question is to be looked at.
func (b *Backend) spins(idle int) bool {
	return b.spinner != nil && !b.cancelled.Load() && !b.inquired.Load() && b.spinner.Spin(idle)
}

// spin is the idle polls before the clock is looked at.
const spin = 16

func (b *Backend) nothingLeft() bool {
	return len(b.active) == 0 && len(b.messages) == 0 && !b.fresh.Load()
}

// handOver stops the progress engine, or gives it to a new goroutine if there is work left.
func (b *Backend) handOver() {
	if !b.nothingLeft() || !b.halt() {
		go b.progress(nil)
	}
}

// poll looks at everything once and reports whether anything moved.
func (b *Backend) poll() bool {
	if b.fresh.Load() {
		b.accept()
	}
	if a := b.abort.Load(); a != nil && !b.drains(a) {
		return b.pollLate(a)
	}
	if err := b.wire.Poll(); err != nil {
		at, err := b.explainPending(Classify(err))
		return b.Group.Fail(err, at)
	}
	return b.move()
}

// pollLate ends what is pending when Drain is over, unless something has come that moves it.
func (b *Backend) pollLate(a *abort) bool {
	if !b.takesLate(a) || b.wire.Poll() != nil || !b.move() {
		b.endAll()
	}
	return true
}

// move moves the collective at the head of the order, and the messages.
func (b *Backend) move() bool {
	moved := false
	if len(b.active) > 0 {
		moved = b.advance(b.active[0])
	}
	return b.advanceMessages() || moved
}

// accept takes over the operations that were enqueued.
func (b *Backend) accept() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.queue {
		b.own(o)
		b.queue[i] = nil
	}
	b.queue = b.queue[:0]
	b.fresh.Store(false)
}

// own takes over an operation.
func (b *Backend) own(o *op.Op) {
	if o.P2P() {
		b.post(o)
		return
	}
	if len(b.active) == 0 {
		b.active = b.room
	}
	b.active = append(b.active, o)
	if cap(b.active) > cap(b.room) {
		b.room = b.active[:0]
	}
}

// watch has the end of each pending operation's context wake the progress engine, which may sleep now. Most calls end before
// they come to this, and a context that cannot end needs none. New operations stand at the end.
func (b *Backend) watch() {
	for i := len(b.active) - 1; i >= 0 && b.watchOne(b.active[i]); i-- {
	}
	for i := len(b.messages) - 1; i >= 0 && b.watchOne(b.messages[i].Op); i-- {
	}
}

// watchOne does so for one operation. It reports false if that was done before.
func (b *Backend) watchOne(o *op.Op) bool {
	if o.Watched {
		return false
	}
	o.Watched = true
	if o.Ctx != nil && o.Ctx.Done() != nil {
		o.More().Stop = context.AfterFunc(o.Ctx, func() {
			b.cancelled.Store(true)
			b.mesh.Wake()
		})
	}
	return true
}

// advance moves the collective at the head of the order.
func (b *Backend) advance(o *op.Op) bool {
	if !o.Begun {
		agreed, err := b.Group.Agree(o)
		if agreed && err == nil {
			err = b.begin(o)
		}
		if !agreed && err == nil {
			return false
		}
		if err != nil {
			b.Group.Fail(b.Group.Explain(o, o.Seq, Classify(err), false), o.Seq)
			return true
		}
	}
	moved, err := b.run.engine.Advance()
	over := true
	if err == nil && b.worker != nil {
		over, err = b.worker.done()
	}
	if err != nil {
		return b.broken(o, err) || moved
	}
	if over && b.run.engine.Done() {
		if k := b.run.finish; k != nil {
			shape := &b.run.plan.Shape
			own := b.run.out[:shape.Len(plan.Out)*shape.Elem]
			k.Finish(own, own, shape.Size)
		}
		o.Unpack(b.run.out)
		b.active[0] = nil
		b.active = b.active[1:]
		b.end(o, b.run.plan, nil)
		return true
	}
	return moved
}

// begin plans a collective and starts its run.
func (b *Backend) begin(o *op.Op) error {
	o.Begun = true
	b.Group.Begin(o)
	s := &b.start
	*s = Start{}
	if err := b.wire.Begin(o, s); err != nil {
		return err
	}
	if n := s.Plan.Scratch * s.Plan.Shape.Elem; len(b.scratch) < n {
		b.scratch = make([]byte, n)
	}
	in, out := o.Pack(&b.packing)
	if s.In != nil {
		in = s.In
	}
	if s.Out != nil {
		out = s.Out
	}
	s.In, s.Out = nil, nil // nothing of the caller's is kept
	b.run.out, b.run.plan, b.run.finish = out, s.Plan, s.Finish
	weight := s.Weight
	if weight != 0 && weight != 1 && s.Plan.ReadsAgain() {
		in, weight = o.Scaled(&b.packing, in, out, weight), 0
	}
	own := s.Plan
	if s.Halves != nil {
		own = &s.Halves[0]
		b.worker.start(s, weight, in, out, b.scratch)
	}
	b.run.engine.Start(own, s.Port, s.Kernel, in, out, b.scratch)
	b.run.engine.Weigh(weight)
	return nil
}

// end completes an operation, with the plan by which a collective was carried out.
func (b *Backend) end(o *op.Op, p *plan.Plan, err error) {
	if stop := o.Rare().Stop; stop != nil {
		stop()
	}
	if !o.P2P() {
		if b.worker != nil {
			b.worker.end()
		}
		b.run.engine.Reset()
		b.run.out, b.run.plan, b.run.finish, b.run.stalledAt = nil, nil, nil, time.Time{}
	}
	b.Group.End(o, p, err)
}

// endAll completes everything with the group's error.
func (b *Backend) endAll() {
	if b.worker != nil {
		b.worker.end() // Withdraw must not run beside an offer of a payload
	}
	b.wire.Withdraw()
	cause := b.Group.Err()
	for i, o := range b.active {
		b.end(o, nil, b.ownError(o, cause))
		b.active[i] = nil
	}
	b.active = b.active[:0]
	for i, m := range b.messages {
		b.endMessage(m, b.ownError(m.Op, cause))
		b.messages[i] = nil
	}
	b.messages = b.messages[:0]
}
