package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// doAll carries out the operations of a block in the steps of do, with no other operation between them. It returns the
// Pending of the whole block.
func (g *Group) doAll(ctx context.Context, ops []*op.Op, async bool) (backend.Pending, error) {
	for _, o := range ops {
		o.With(ctx)
		if err := g.admissible(ctx, o); err != nil {
			return nil, err
		}
	}
	switch {
	case len(ops) == 0:
		return none{}, nil
	case !ops[0].OnCPU():
		return (*onDevice)(g).carryAll(ctx, ops, async)
	case g.size == 1:
		return (*alone)(g).carryAll(ctx, ops)
	}
	b, run, err := (*onHost)(g).enqueueAll(merged(g, ops), false)
	if err != nil {
		return nil, g.explain(ops[0], 0, err, true)
	}
	if async {
		g.host.Start(run)
		return host.Pending{Op: b.Stands()}, nil
	}
	g.host.Finish(&b.Op, run)
	<-b.Done
	return nil, b.Err
}

// none is the Pending of a block without operations.
type none struct{}

// Wait implements backend.Pending.
func (none) Wait(context.Context) error { return nil }

// Synchronize implements backend.Pending.
func (none) Synchronize(context.Context) error { return nil }

// Done implements backend.Pending.
func (none) Done() bool { return true }

// carryAll carries out a block in a group of one rank.
func (c *alone) carryAll(ctx context.Context, ops []*op.Op) (backend.Pending, error) {
	g := (*Group)(c)
	var r blockRoom
	units := r.cut(ops, !overGloo(g.devices.selected))
	b, err := c.admitAll(r.standing())
	if err != nil {
		return nil, g.explain(ops[0], 0, err, true)
	}
	for i := range units {
		if err := c.carryUnit(&units[i]); err != nil {
			b.Err = cmp.Or(b.Err, err)
		}
	}
	o := b.Stands()
	if b.Single() == nil {
		g.ops.Begin(o, o.Called)
		g.end(o, nil, b.Err)
	}
	o.Done = closedChannel
	return host.Pending{Op: o}, b.Err
}

// admitAll numbers and records the operations of a block.
func (c *alone) admitAll(b *op.Block) (*op.Block, error) {
	g := (*Group)(c)
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	if err := g.state.refusal(b.Own); err != nil {
		return nil, err
	}
	n := numbering{g: g}
	for _, o := range b.Ops {
		n.next(o, 1+4) // admitAll, carryAll and doAll, and runAll or startAll with a method before it
	}
	n.end(b, 1+4)
	return b, nil
}

// carryUnit carries out the operations that one record stands for.
func (c *alone) carryUnit(u *unit) error {
	g, o := (*Group)(c), u.record
	g.ops.Begin(o, o.Called)
	parts := u.ops
	if parts == nil {
		parts = append(parts, o)
	}
	var err error
	for _, p := range parts {
		err = cmp.Or(err, p.Alone())
	}
	if err != nil {
		err = g.explain(o, 0, err, false)
	}
	g.end(o, nil, err)
	return err
}

// runAll carries out checked operations as one.
func (g *Group) runAll(ctx context.Context, ops []*op.Op) error {
	g = g.orOutside()
	_, err := g.doAll(ctx, ops, false)
	return err
}

// startAll does so in the background, unless the arguments are wrong.
func (g *Group) startAll(ctx context.Context, ops []*op.Op, wrong error) *Work {
	g = g.orOutside()
	if wrong != nil {
		return finished(wrong)
	}
	results := resultsOf(ops)
	p, err := g.doAll(ctx, ops, true)
	if err != nil {
		return finished(err)
	}
	w := workOfBlock(g, ops, p)
	w.results = results
	return w
}

// resultsOf returns the tensors that will hold the results of a block.
func resultsOf(ops []*op.Op) []colligo.Tensor {
	var all []colligo.Tensor
	for _, o := range ops {
		all = append(all, o.Results()...)
	}
	return all
}

// enqueueAll gives the operations of a block to the CPU backend. If each is set they have done channels of their own.
func (c *onHost) enqueueAll(ops []*op.Op, each bool) (b *op.Block, run bool, err error) {
	g := (*Group)(c)
	b = op.NewBlock(ops)
	b.Done = make(chan struct{})
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	if err := g.state.refusal(b.Own); err != nil {
		return nil, false, err
	}
	n := numbering{g: g}
	for _, o := range ops {
		n.next(o, 1+3) // enqueueAll, doAll or startEach, and runAll, startAll or startBatch with a function before it
		if each {
			o.Done = make(chan struct{})
		}
	}
	if o := b.Single(); o != nil && !each {
		o.Done = b.Done
	}
	n.end(b, 1+3)
	return b, g.host.EnqueueAll(ops), nil
}

// numbering gives the operations of a block their numbers. As in c10d its collectives have one number, and so have its sends and
// receives. The caller of its methods holds g.state.mu.
type numbering struct {
	g                     *Group
	collectives, messages bool // there was one, which took a number
}

// next gives an operation its place in the group's order, its time limit and its record. The recorder leaves out so many callers of next.
func (n *numbering) next(o *op.Op, skip int) {
	g, seen := n.g, &n.messages
	if !o.P2P() {
		seen = &n.collectives
		g.state.seq = g.state.seq.Next(!o.Own && !*seen)
	}
	o.Seq = g.state.seq
	g.limits.grant(o)
	if limit := o.Within(); *seen {
		g.ops.AdmitMore(o, limit, skip+1)
	} else {
		g.ops.Admit(o, limit, skip+1)
	}
	*seen = true
}

// end gives a record to the operation that stands for all, if there are several.
func (n *numbering) end(b *op.Block, skip int) {
	if b.Single() != nil {
		return
	}
	b.OnlyP2P, b.Limit = !n.collectives, b.Ops[0].Limit
	n.g.ops.AdmitMore(&b.Op, b.Within(), skip+1)
}

// carryAll gives the calls of a block to the backend of their device, with no other between them.
func (c *onDevice) carryAll(ctx context.Context, ops []*op.Op, async bool) (backend.Pending, error) {
	g := (*Group)(c)
	if err := c.hold(ctx, ops[0]); err != nil {
		return nil, err
	}
	defer c.release()
	b := g.devices.last
	all, grouped := b.(backend.Grouper)
	for _, o := range ops {
		if err := c.refusal(o, grouped); err != nil {
			return nil, err
		}
	}
	if !grouped && slices.ContainsFunc(ops, func(o *op.Op) bool { return o.Rare().ToSelf }) {
		return nil, g.explain(ops[0], 0, fmt.Errorf("the backend of %v has no messages of a rank to itself", ops[0].DeviceID()), false)
	}
	if grouped {
		if err := all.Begin(ctx, len(ops), async); err != nil {
			return nil, c.failCall(ops[0], err)
		}
	}
	g.devices.timed = g.ops.Timing()
	held := grouped && (async || g.devices.timed) // the others are followed as ever
	if held {
		g.devices.watch.Hold()
	}
	r := &g.devices.block
	if async {
		r = &blockRoom{called: time.Now()} // which the operations refer to until they are over
	} else {
		defer r.clear()
	}
	units := r.cut(ops, grouped)
	each, u, err := c.giveAll(r, async)
	if err != nil {
		if held {
			defer g.devices.watch.Release(nil)
		}
		if grouped {
			_, late := all.End(ctx)
			err = errors.Join(err, late)
		}
		return nil, c.failCall(u.record, err)
	}
	if !grouped {
		return each, nil
	}
	p, err := all.End(ctx)
	if err != nil {
		err = c.failCall(units[0].record, err)
	} else if async && p != nil {
		c.watchDeadline(units[0].record, p, op.MomentOf(r.called))
	}
	if held {
		g.devices.watch.Release(p)
	}
	return p, err
}

// giveAll gives the units of a block to the backend at hand, and records what stands for them if they are several. It returns their Pendings, or
// the unit that the backend has refused.
func (c *onDevice) giveAll(r *blockRoom, async bool) (each pendings, refused *unit, err error) {
	g, n := (*Group)(c), numbering{g: (*Group)(c)}
	several := len(r.units) > 1 && !r.units[0].record.Own
	if several {
		g.devices.watch.BeginBlock()
	}
	for i := range r.units {
		p, err := c.giveNext(&r.units[i], &n, async)
		if err != nil {
			if several {
				g.devices.watch.DropBlock()
			}
			return nil, &r.units[i], err
		}
		if p != nil {
			each = append(each, p)
		}
	}
	if several {
		c.endBlock(r.standing(), &n, r.called)
	}
	return each, nil, nil
}

// endBlock records the operation that stands for the units of a block, and has the watchdog look after it. Called is when an asynchronous
// call began, whose Work will ask for it; it is zero for one that blocks.
func (c *onDevice) endBlock(b *op.Block, n *numbering, called time.Time) {
	g := (*Group)(c)
	g.state.mu.Lock()
	n.end(b, 1+5) // endBlock, giveAll, carryAll and doAll, and runAll or startAll with a method before it
	g.state.mu.Unlock()
	if !called.IsZero() {
		b.Clock(called)
		b.More().Block, b.Ops[0].More().Block = b, b
	}
	g.devices.watch.EndBlock(&b.Op)
}

// giveNext takes the next place for a unit of a block and gives its operations to the backend.
func (c *onDevice) giveNext(u *unit, n *numbering, async bool) (backend.Pending, error) {
	g, o := (*Group)(c), u.record
	g.state.mu.Lock()
	err := g.state.refusal(o.Own)
	if err == nil {
		n.next(o, 1+5) // giveNext, giveAll, carryAll and doAll, and runAll or startAll with a method before it
	}
	g.state.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for _, part := range u.ops {
		part.Seq, part.More().Record = o.Seq, o
	}
	return c.give(o, u.ops, async)
}

// pendings is the operations of a block that were launched one by one.
type pendings []backend.Pending

// Wait implements backend.Pending.
func (ps pendings) Wait(ctx context.Context) error {
	return ps.each(func(p backend.Pending) error { return p.Wait(ctx) })
}

// Synchronize implements backend.Pending.
func (ps pendings) Synchronize(ctx context.Context) error {
	return ps.each(func(p backend.Pending) error { return p.Synchronize(ctx) })
}

func (ps pendings) each(f func(backend.Pending) error) error {
	for _, p := range ps {
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
}

// Done implements backend.Pending.
func (ps pendings) Done() bool {
	for _, p := range ps {
		if !p.Done() {
			return false
		}
	}
	return true
}

// launched returns the operations of a coalesced call as they are launched. Over Gloo some are one.
func launched(g *Group, coll plan.Coll, ops []*op.Op, err error) ([]*op.Op, error) {
	if err != nil || !overGloo(g.devices.selected) || g.size == 1 || !ops[0].OnCPU() || coll != plan.AllReduce && coll != plan.AllGather {
		return ops, err
	}
	return []*op.Op{op.Together(ops)}, nil
}

// merged puts operations of a block together where that is faster, and ranks of PyTorch would not miss them.
func merged(g *Group, ops []*op.Op) []*op.Op {
	if overGloo(g.devices.selected) {
		return ops
	}
	return op.Merge(ops)
}
