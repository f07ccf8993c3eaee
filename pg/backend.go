package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// backendFor returns the group's backend for a device, and opens it at first use. The caller holds g.order.
func (g *Group) backendFor(ctx context.Context, d colligo.Device) (backend.Backend, error) {
	if b := g.backends.get(d); b != nil {
		return b, nil
	}
	open, err := g.opener(d)
	if err != nil {
		return nil, err
	}
	b, err := open(asOwn(ctx), &seam{g}, d)
	if err != nil {
		return nil, fmt.Errorf("opening the backend of %v: %w", d, err)
	}
	g.backends.put(d, b)
	if err := g.Err(); err != nil {
		g.settleDevices(err) // which found no backend when the group failed
	}
	return b, nil
}

// openedFor is backendFor a call.
func (g *Group) openedFor(ctx context.Context, r *request) (backend.Backend, error) {
	if err := g.Err(); err != nil {
		return nil, g.explain(r, 0, err, true)
	}
	b, err := g.backendFor(ctx, r.device)
	if err != nil {
		return nil, g.explain(r, 0, err, false)
	}
	return b, g.refuseAfterDeath(r) // of a peer that died before there was a backend to tell
}

// backends are those that a group has opened, by device.
type backends struct {
	sync.Mutex
	by    map[colligo.Device]backend.Backend
	order []backend.Backend // as they were opened, which is the same on all ranks
	// The backend of the last operation, under Group.order: most programs have one, which then takes neither lock nor map.
	last       backend.Backend
	lastDevice colligo.Device
}

// get returns the backend of a device, nil if none is open. The caller holds g.order.
func (bs *backends) get(d colligo.Device) backend.Backend {
	if bs.last == nil || bs.lastDevice != d {
		bs.last, bs.lastDevice = bs.opened(d), d
	}
	return bs.last
}

func (bs *backends) opened(d colligo.Device) backend.Backend {
	bs.Lock()
	defer bs.Unlock()
	return bs.by[d]
}

func (bs *backends) put(d colligo.Device, b backend.Backend) {
	bs.Lock()
	defer bs.Unlock()
	if bs.by == nil {
		bs.by = map[colligo.Device]backend.Backend{}
	}
	bs.by[d] = b
	bs.order = append(bs.order, b)
}

// any reports whether one is open.
func (bs *backends) any() bool {
	bs.Lock()
	defer bs.Unlock()
	return len(bs.by) > 0
}

// abort tells all of them that the group has failed. It does not wait for a Run that is blocked in a driver.
func (bs *backends) abort(cause error) {
	bs.Lock()
	defer bs.Unlock()
	for _, b := range bs.by {
		b.Abort(cause)
	}
}

// close ends all of them, in one order on all ranks, for they may wait for their peers. The caller holds g.order, and has called
// abort. A backend may wait here for a goroutine of its own that fails the group.
func (bs *backends) close() error {
	bs.Lock()
	all := bs.order
	bs.by, bs.order, bs.last = nil, nil, nil
	bs.Unlock()
	var errs []error
	for _, b := range all {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// onDevice gives a call to the backend of its device.
func (g *Group) onDevice(ctx context.Context, r *request, async bool) (backend.Pending, error) {
	g.order.Lock()
	defer g.order.Unlock()
	b := g.backends.get(r.device)
	if b == nil {
		var err error
		if b, err = g.openedFor(ctx, r); err != nil {
			return nil, err
		}
	}
	seq, err := g.number(ctx, r)
	if err != nil {
		return nil, g.explain(r, 0, err, true)
	}
	p, err := g.give(ctx, b, r, seq, async)
	if err != nil {
		err = g.explain(r, seq, err, false)
		g.fail(err, true)
	}
	return p, err
}

// give runs a call on a backend, with the sequence number that it has got. The caller holds g.order.
func (g *Group) give(ctx context.Context, b backend.Backend, r *request, seq uint64, async bool) (backend.Pending, error) {
	if r.coll != plan.Send && r.coll != plan.Recv { // which have the place of the collective before them
		g.entered.call(g, r, seq)
	}
	called := r.rec.called // the clock is read once for recorder and watchdogs
	if g.detailed() {
		if err := g.agreeOnDevice(ctx, r, seq); err != nil {
			g.conclude(&r.rec, err)
			return nil, err
		}
		called = time.Now()
	} else if called.IsZero() {
		called = time.Now()
	}
	g.inside.Context = ctx
	r.fill(&g.deviceCall, seq, async)
	g.deviceCall.Timed = async && g.ledger.timing.Load()
	g.vitals.call.Store(called.UnixNano())
	p, err := b.Run(&g.inside, &g.deviceCall)
	g.vitals.call.Store(0)
	if err != nil {
		g.conclude(&r.rec, err)
		return nil, err
	}
	g.follow(b, r, p)
	if p != nil {
		g.watchDevice(ctx, r, seq, p, called)
	}
	return p, nil
}

// fill makes c the call of a request. Field by field: a struct of this size that is assigned as a whole is made elsewhere first.
func (r *request) fill(c *backend.Call, seq uint64, async bool) {
	c.Coll, c.DType, c.Op = r.coll, r.dtype, r.op
	c.Root, c.Peer, c.Tag, c.Count = r.root, r.peer, r.tag, r.count
	c.Counts, c.RecvCounts = r.counts, r.recv
	c.In, c.Out, c.Ins, c.Outs = r.src, r.dst, r.ins, r.outs
	c.Seq, c.Async = numberOf(seq), async
}

// number takes the next sequence number of a collective, unless the group has failed; sends and receives have the last
// collective's.
func (g *Group) number(ctx context.Context, r *request) (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	if r.coll != plan.Send && r.coll != plan.Recv {
		g.seq = after(g.seq, !r.rec.own)
	}
	g.admit(r, within(ctx, g.Timeout()), 2)
	return g.seq, nil
}

// opener returns what opens the group's backend for a device.
func (g *Group) opener(d colligo.Device) (backend.Opener, error) {
	if bound := g.config.Device; bound.Kind != colligo.CPU && d != bound {
		return nil, fmt.Errorf("a tensor on %v, and the group is bound to %v", d, bound)
	}
	return g.form.backends.Opener(d.Kind)
}
