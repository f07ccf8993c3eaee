package pg

import (
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
		o.Ctx, o.Own = ctx, op.IsOwn(ctx)
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
		return host.Pending{Op: &b.Op}, nil
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
	for _, o := range ops {
		g.state.mu.Lock()
		err := g.state.refusal(o.Own)
		if err == nil {
			g.number(o, 1+3) // carryAll and doAll, and runAll or startAll with a method before it
		}
		g.state.mu.Unlock()
		if err != nil {
			return nil, g.explain(o, 0, err, true)
		}
		if _, err := c.carry(ctx, o, false, false); err != nil {
			return nil, err
		}
	}
	return none{}, nil
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
	if err := g.state.refusal(ops[0].Own); err != nil {
		return nil, false, err
	}
	numbered := !ops[0].Own
	for _, o := range ops {
		if !o.P2P() {
			g.state.seq, numbered = g.state.seq.Next(numbered), false
		}
		g.limits.grant(o)
		if o.Seq = g.state.seq; each {
			o.Done = make(chan struct{})
		}
	}
	c.admitAll(b)
	return b, g.host.EnqueueAll(ops), nil
}

// admitAll records the operations of a block. As in c10d its collectives have one number, and so have its sends and
// receives. An entry of its own stands for all if there are several. The caller, enqueueAll, holds g.state.mu.
func (c *onHost) admitAll(b *op.Block) {
	g := (*Group)(c)
	const skip = 5   // admitAll, enqueueAll and doAll, and runAll or startAll with a method before it
	var seen [2]bool // a collective, a send or receive: the first of each kind has a number
	for _, o := range b.Ops {
		first := &seen[0]
		if o.P2P() {
			first = &seen[1]
		}
		if *first {
			g.ops.AdmitMore(o, within(o.Ctx, o.Limit), skip)
		} else {
			g.ops.Admit(o, within(o.Ctx, o.Limit), skip)
		}
		*first = true
	}
	first := b.Ops[0]
	b.Size, b.Rank, b.Own, b.OnlyP2P = first.Size, first.Rank, first.Own, !seen[0]
	if b.Single() == nil {
		b.As(op.Coalesced)
		g.ops.AdmitMore(&b.Op, within(first.Ctx, first.Limit), skip)
	}
}

// carryAll gives the calls of a block to the backend of their device, with no other between them.
func (c *onDevice) carryAll(ctx context.Context, ops []*op.Op, async bool) (backend.Pending, error) {
	g := (*Group)(c)
	if err := c.prepare(ctx, ops[0]); err != nil {
		return nil, err
	}
	defer c.release()
	b := g.devices.get(ops[0].DeviceID())
	all, grouped := b.(backend.Grouper)
	if !grouped && slices.ContainsFunc(ops, func(o *op.Op) bool { return o.Rare().ToSelf }) {
		return nil, g.explain(ops[0], 0, fmt.Errorf("the backend of %v has no messages of a rank to itself", ops[0].DeviceID()), false)
	}
	if grouped {
		if err := all.Begin(ctx, len(ops), async); err != nil {
			return nil, c.failBlock(ops[0], err)
		}
	}
	timed := g.ops.Timing()
	held := grouped && (async || timed) // the others are followed as ever
	if held {
		g.devices.watch.Hold()
	}
	units := unitsOf(ops, grouped)
	var each pendings
	called := time.Now()
	for i := range units {
		u := &units[i]
		p, err := c.giveNext(ctx, b, u, async, timed)
		if err != nil {
			if held {
				defer g.devices.watch.Release(nil)
			}
			if grouped {
				_, late := all.End(ctx)
				err = errors.Join(err, late)
			}
			return nil, c.failBlock(u.record, err)
		}
		if !grouped {
			each = append(each, p)
		}
	}
	if !grouped {
		return each, nil
	}
	p, err := all.End(ctx)
	if err != nil {
		err = c.failBlock(units[0].record, err)
	} else if async && p != nil {
		c.watchDeadline(units[0].record, p, called)
	}
	if held {
		g.devices.watch.Release(p)
	}
	return p, err
}

// unit is what one record of a block on a device stands for: one operation, or several that the CPU would carry out as one.
type unit struct {
	record *op.Op
	ops    []*op.Op // nil: the one of the record
}

// unitsOf cuts a block on a device into units. Where operations are not launched together each is a unit, for each has a Pending.
func unitsOf(ops []*op.Op, grouped bool) []unit {
	units := make([]unit, 0, len(ops))
	if !grouped {
		for _, o := range ops {
			units = append(units, unit{record: o})
		}
		return units
	}
	for _, run := range op.Runs(ops) {
		if len(run) == 1 {
			units = append(units, unit{record: run[0]})
		} else {
			units = append(units, unit{op.Record(run), run})
		}
	}
	return units
}

// giveNext takes the next sequence number for a unit of a block and gives its operations to the backend.
func (c *onDevice) giveNext(ctx context.Context, b backend.Backend, u *unit, async, timed bool) (backend.Pending, error) {
	g, o := (*Group)(c), u.record
	g.state.mu.Lock()
	err := g.state.refusal(o.Own)
	if err == nil {
		g.number(o, 1+4) // giveNext, carryAll and doAll, and runAll or startAll with a method before it
	}
	g.state.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for _, part := range u.ops {
		part.Seq, part.More().Record = o.Seq, o
	}
	return c.give(ctx, b, o, u.ops, async, timed)
}

// failBlock fails the group with what a backend could not do.
func (c *onDevice) failBlock(o *op.Op, err error) error {
	g := (*Group)(c)
	err = g.explain(o, o.Seq, err, false)
	g.fail(err, true)
	return err
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
