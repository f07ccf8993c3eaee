package pg

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/watchdog"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// onHost carries operations on tensors of the CPU: by package host.
type onHost Group

func (c *onHost) prepare(context.Context, *op.Op) error { return nil }

func (c *onHost) release() {}

func (c *onHost) done() chan struct{} { return make(chan struct{}) }

func (c *onHost) claim(o *op.Op) bool {
	r := o.Rare()
	return r.After == nil && r.Block == nil && !(*Group)(c).detailed() && c.host.Claim()
}

func (c *onHost) take(o *op.Op) (run bool) { return c.host.Enqueue(o) }

func (c *onHost) carry(o *op.Op, async, run bool) (backend.Pending, error) {
	if async {
		c.host.Start(run)
		return host.Pending{Op: o}, nil
	}
	c.host.Finish(o, run)
	return nil, o.Err
}

// alone carries operations of a group of one rank: by a copy.
type alone Group

func (c *alone) prepare(context.Context, *op.Op) error { return nil }

func (c *alone) release() {}

func (c *alone) done() chan struct{} { return closedChannel }

func (c *alone) claim(*op.Op) bool { return true }

func (c *alone) take(*op.Op) (run bool) { return false }

func (c *alone) carry(o *op.Op, async, _ bool) (backend.Pending, error) {
	g := (*Group)(c)
	g.ops.Begin(o, o.Called)
	err := o.Alone()
	if err != nil {
		err = g.explain(o, 0, err, false)
	}
	g.end(o, nil, err)
	if async && err == nil {
		return host.Pending{Op: o}, nil
	}
	return nil, err
}

// onDevice carries operations on tensors of a device: by the group's backend for it.
type onDevice Group

func (c *onDevice) prepare(ctx context.Context, o *op.Op) error {
	if err := c.hold(ctx, o); err != nil {
		return err
	}
	err := c.refusal(o, false)
	if err != nil {
		c.release()
	}
	return err
}

// refusal returns why the backend of an operation does not carry it out, alone or in a block. The caller holds the order.
func (c *onDevice) refusal(o *op.Op, inBlock bool) error {
	d := &c.devices
	if d.selective == nil || !o.Coll.Reduces() {
		return nil
	}
	rare := o.Rare()
	r := backend.Reduction{Coll: o.Coll, DType: o.DType, Kind: o.Reduce, Bytes: o.Count * o.DType.Size(),
		Lists: rare.Ins != nil || rare.Outs != nil, InBlock: inBlock}
	if r == d.accepted {
		return nil
	}
	if err := d.selective.Refuses(r); err != nil {
		g := (*Group)(c)
		if failed := g.Err(); failed != nil {
			return g.explain(o, 0, failed, true)
		}
		return g.explain(o, 0, err, false)
	}
	d.accepted = r
	return nil
}

// hold makes the backend of an operation the one at hand, and opens it if no operation has. It holds the order until release.
func (c *onDevice) hold(ctx context.Context, o *op.Op) error {
	g := (*Group)(c)
	if g.size == 1 {
		if err := g.Err(); err != nil {
			return g.explain(o, 0, err, true)
		}
	}
	g.devices.order.Lock()
	if g.devices.get(o.DeviceID()) != nil {
		return nil
	}
	return c.openFor(ctx, o)
}

// openFor opens the backend for the first operation on a device, and makes it the one at hand. The caller holds the order, and does not any more
// if there is an error.
func (c *onDevice) openFor(ctx context.Context, o *op.Op) (err error) {
	g := (*Group)(c)
	defer func() {
		if err != nil {
			c.release()
		}
	}()
	if err := g.Err(); err != nil {
		return g.explain(o, 0, err, true)
	}
	if _, err := c.backendFor(ctx, o.DeviceID()); err != nil {
		return g.explain(o, 0, err, false)
	}
	if lost := g.host.LostPeer(); lost != nil { // it died before there was a backend to tell
		return g.failAfterDeath(o, lost)
	}
	g.devices.get(o.DeviceID())
	return nil
}

func (c *onDevice) release() { c.devices.order.Unlock() }

func (c *onDevice) done() chan struct{} { return nil }

func (c *onDevice) claim(*op.Op) bool { return false }

func (c *onDevice) take(*op.Op) (run bool) { return false }

func (c *onDevice) carry(o *op.Op, async, _ bool) (backend.Pending, error) {
	c.devices.timed = c.ops.Timing()
	p, err := c.give(o, nil, async)
	if err != nil {
		err = c.failCall(o, err)
	}
	return p, err
}

// failCall fails the group with what a backend could not do.
func (c *onDevice) failCall(o *op.Op, err error) error {
	g := (*Group)(c)
	err = g.explain(o, o.Seq, err, false)
	g.fail(err, true)
	return err
}

// give gives an operation that has its number to the backend at hand, or the ones that it stands for. The caller holds the order.
func (c *onDevice) give(o *op.Op, parts []*op.Op, async bool) (backend.Pending, error) {
	g, d, called := (*Group)(c), &c.devices, o.Called
	if o.P2P() {
		c.begin(o)
	} else { // a message has the place of the collective before it
		g.enter(o)
	}
	if g.detailed() {
		if err := c.compare(o); err != nil {
			return nil, c.notGiven(o, err)
		}
		called = op.Now()
	} else if async && called == 0 {
		called = op.Now()
	}
	d.call.Async, d.call.Timed = async, d.timed && !o.Own
	p, err := d.run(o, parts)
	if err != nil {
		return nil, c.notGiven(o, err)
	}
	if async && p != nil {
		c.watchDeadline(o, p, called)
	}
	return p, nil
}

// begin notes a message of the program for the answers to progress queries.
func (c *onDevice) begin(o *op.Op) {
	if !o.Own {
		c.control.Progress.Begin(o.Coll == plan.Send, int(o.Peer))
	}
}

// compare compares an operation with what the other ranks call, in detail mode.
func (c *onDevice) compare(o *op.Op) error {
	c.devices.patient.Store(true)
	defer c.devices.patient.Store(false)
	return c.agree(o.Ctx, o)
}

// notGiven ends an operation that no backend has, for a reason that it returns.
func (c *onDevice) notGiven(o *op.Op, err error) error {
	if o.P2P() && !o.Own {
		c.control.Progress.End(o.Coll == plan.Send, int(o.Peer), 1)
	}
	c.ops.End(o, nil, err)
	return err
}

// get returns the backend of a device, nil if none is open, and makes it the one at hand. The caller holds the order.
func (d *devices) get(id colligo.Device) backend.Backend {
	if d.last == nil || d.lastDevice != id {
		d.find(id)
	}
	return d.last
}

// find makes the backend of a device the one at hand. The caller holds the order.
func (d *devices) find(id colligo.Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last, d.lastDevice = d.by[id], id
	d.selective, _ = d.last.(backend.Selective)
	d.accepted = backend.Reduction{}
	if d.last != nil {
		d.watched = d.watch.CallsOf(d.last)
	}
}

// run runs an operation on the backend at hand, or the ones that it stands for, and has the watchdog look after it. The caller holds the
// order.
func (d *devices) run(o *op.Op, parts []*op.Op) (p backend.Pending, err error) {
	if len(parts) == 0 {
		p, err = d.hand(o)
	} else {
		p, err = d.runParts(o, parts)
	}
	if err == nil {
		d.watch.Add(d.watched, o, p)
	}
	return p, err
}

// runParts runs what an operation stands for. It is over when the last part is.
func (d *devices) runParts(o *op.Op, parts []*op.Op) (p backend.Pending, err error) {
	for i, part := range parts {
		if i > 0 {
			d.watched.Skip(o.Coll)
		}
		if p, err = d.hand(part); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// hand gives the backend at hand one call, of which give has set what is the same for all parts.
func (d *devices) hand(o *op.Op) (backend.Pending, error) {
	d.inside.Context = o.Ctx
	fill(&d.call, o)
	if usual := o.Usual(); !usual || d.callRare {
		fillRare(&d.call, o.Rare())
		d.callRare = !usual
	}
	return d.last.Run(&d.inside, &d.call)
}

// fill makes c the call of an operation, without the fields of fillRare. Field by field: a struct of this size that is assigned as a whole
// is made elsewhere first.
func fill(c *backend.Call, o *op.Op) {
	c.Coll, c.DType, c.Op = o.Coll, o.DType, o.ReduceOp()
	c.Root, c.Peer, c.Tag, c.Count = int(o.Root), int(o.Peer), int(o.Tag), o.Count
	c.In, c.Out = o.In, o.Out
	c.Seq = o.Seq.Number()
}

// fillRare fills in the lists and counts of a call, which few operations have.
func fillRare(c *backend.Call, r *op.Rare) {
	c.Counts, c.RecvCounts, c.Ins, c.Outs = r.Counts, r.Recvs, r.Ins, r.Outs
}

// watchDeadline begins to watch the deadline of an asynchronous operation on a device. The caller holds the order.
func (c *onDevice) watchDeadline(o *op.Op, p backend.Pending, called op.Moment) {
	g := (*Group)(c)
	o.Clock(called.Time())
	if g.config.Watchdog.OnError == NoHandling {
		g.limits.ended(o) // nobody sees when it is done
		return
	}
	g.devices.watch.Watch(o, p)
}

// events is a group as its CPU backend and the watchdog of its devices see it: what they ask it, and what they tell it.
type events struct{ g *Group }

var (
	_ host.Group     = (*events)(nil)
	_ watchdog.Group = (*events)(nil)
)

// Agree implements host.Group.
func (e *events) Agree(o *op.Op) (bool, error) {
	if after := o.Rare().After; after != nil && !after() {
		return false, nil
	}
	if !e.g.detailed() {
		return true, nil
	}
	return e.agree(o)
}

// Begin implements host.Group.
func (e *events) Begin(o *op.Op) {
	if !o.Own {
		now := o.Called
		if !o.AtOnce {
			now = op.Now()
		}
		e.g.ops.Begin(o, now)
		switch b := o.Rare().Block; {
		case b == nil || b.HasStarted():
		case b.Single() != nil:
			b.Started(now) // it has no record
		default:
			e.g.ops.Begin(&b.Op, now)
		}
	}
	if o.P2P() {
		e.g.control.Progress.Begin(o.Coll == plan.Send, int(o.Peer))
	} else {
		e.g.enter(o)
	}
}

// End implements host.Group.
func (e *events) End(o *op.Op, p *plan.Plan, err error) {
	switch {
	case !o.P2P() && err == nil:
		e.g.control.Progress.Complete(uint64(o.Seq))
	case o.P2P() && o.Begun:
		e.g.control.Progress.End(o.Coll == plan.Send, o.Posted(), 1)
	}
	e.g.end(o, p, err)
}

// Fail implements host.Group.
func (e *events) Fail(err error, at op.Seq) bool { return e.g.failAt(err, at, true) }

// Err implements host.Group and watchdog.Group.
func (e *events) Err() error { return e.g.Err() }

// Called implements host.Group.
func (e *events) Called(at op.Seq) (transport.Call, bool) { return e.g.control.Progress.At(uint64(at)) }

// Explain implements host.Group.
func (e *events) Explain(o *op.Op, at op.Seq, cause error, second bool) error {
	return e.g.explain(o, at, cause, second)
}

// Freed implements watchdog.Group.
func (e *events) Freed(o *op.Op) { e.g.limits.ended(o) }

// Passed implements watchdog.Group.
func (e *events) Passed(at op.Seq) { e.g.control.Progress.CompleteOnDevice(uint64(at)) }

// Left implements watchdog.Group.
func (e *events) Left(coll plan.Coll, peer, n int) {
	e.g.control.Progress.End(coll == plan.Send, peer, n)
}

// enter notes the collective that this rank enters, for the answers to progress queries.
func (g *Group) enter(o *op.Op) {
	p, rooted, tell, to := &g.control.Progress, o.Coll.Rooted(), false, -1
	call := p.Slot()
	o.Identify(call, g.id)
	if rooted && !g.detailed() { // which compares every call
		tell = o.Coll == plan.Broadcast && !g.control.Repeated(call)
		to = control.RootTold(g.rank, g.size, call, !o.OnCPU())
	}
	switch {
	case o.OnCPU():
		p.Entered()
	case p.EnteredOnDevice() && !g.detailed():
		g.control.TellHistorySoon()
	}
	if tell {
		g.control.Announce(o.Identity(g.id))
	}
	if to >= 0 {
		g.control.TellRoot(uint64(o.Seq), to)
	}
	if (rooted || !o.OnCPU()) && p.Keeps() {
		g.control.Kept(uint64(o.Seq))
	}
}

// end ends an operation on the CPU, with the plan by which a collective was carried out.
func (g *Group) end(o *op.Op, p *plan.Plan, err error) {
	o.Over, o.Err = true, err
	g.limits.ended(o)
	g.ops.End(o, p, err)
	block, done := o.Rare().Block, o.Done
	if done != nil || block != nil { // else run reuses it at once
		o.Release()
	}
	if block != nil && block.PartEnded(err) {
		if block.Single() == nil {
			g.ops.End(&block.Op, nil, block.Err)
		}
		block.Over = true
		close(block.Done)
	}
	if done != nil && done != closedChannel && (block == nil || done != block.Done) { // else it is closed
		close(done) // a caller that waits may use the operation again from here on
	}
}

// open opens the backend of the device to which the group is bound, or makes it by a splitter.
func (c *onDevice) open(ctx context.Context, id colligo.Device, split splitter) error {
	if split == nil {
		_, err := c.opened(ctx, id)
		return err
	}
	b, err := split(ctx, c.devices.host)
	if err == nil {
		c.devices.put(id, b)
	}
	return err
}

// split makes a backend for another group out of that of the device to which this group is bound.
func (c *onDevice) split(ctx context.Context, h backend.Host, color, key int) (backend.Backend, error) {
	b, err := c.opened(ctx, c.config.Device)
	if err != nil {
		return nil, err
	}
	s, ok := b.(backend.Splitter)
	if !ok {
		return nil, fmt.Errorf("the backend of %v cannot be split", c.config.Device)
	}
	c.devices.order.Lock()
	defer c.devices.order.Unlock()
	c.devices.patient.Store(true)
	defer c.devices.patient.Store(false)
	return s.Split(&op.Own{Context: ctx}, h, color, key)
}

// opened returns the group's backend for a device, and opens it if no operation has.
func (c *onDevice) opened(ctx context.Context, id colligo.Device) (backend.Backend, error) {
	g := (*Group)(c)
	g.devices.order.Lock()
	defer g.devices.order.Unlock()
	if b := g.devices.get(id); b != nil {
		return b, nil
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	return c.backendFor(ctx, id)
}

// backendFor returns the group's backend for a device, and opens it at first use, on all ranks together. The caller holds the order.
func (c *onDevice) backendFor(ctx context.Context, id colligo.Device) (backend.Backend, error) {
	g, d := (*Group)(c), &c.devices
	if b := d.get(id); b != nil {
		return b, nil
	}
	if bound := g.config.Device; bound.Kind != colligo.CPU && id != bound {
		return nil, fmt.Errorf("a tensor on %v, and the group is bound to %v", id, bound)
	}
	open, err := d.selected.Opener(id.Kind)
	if err != nil {
		return nil, err
	}
	d.opening.Store(true)
	defer d.opening.Store(false)
	b, err := open(&op.Own{Context: ctx}, d.host, id)
	if err != nil {
		return nil, fmt.Errorf("opening the backend of %v, in which all ranks take part: %w", id, err)
	}
	d.put(id, b)
	d.last = nil
	if err := g.Err(); err != nil {
		g.handler.abortDevices(err) // the group failed before there was a backend to tell
	}
	return b, nil
}

// detailed reports whether calls are compared.
func (g *Group) detailed() bool { return g.config.Debug.Level == DebugDetail && g.size > 1 }
