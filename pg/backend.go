package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// Call is one operation as a backend gets it: its arguments are checked and it has its place in the group's order.
// Counts are those of plan.Shape, in elements of DType.
type Call struct {
	Coll               plan.Coll
	DType              colligo.DType
	Op                 colligo.ReduceOp // of collectives that reduce
	Root, Peer, Tag    int
	Count              int
	Counts, RecvCounts []int
	In, Out            colligo.Tensor   // contiguous; invalid where the rank has none, or a list
	Ins, Outs          []colligo.Tensor // one contiguous tensor for each rank, or nil
	Seq                uint64
	Async              bool // the caller wants a Work
	Timed              bool // with Async: the Pending is to be a Timed that knows
}

// Pending is an operation that a backend has enqueued.
type Pending interface {
	// Wait makes what the caller does next on its device wait for the operation; which stream that is, the context tells.
	Wait(ctx context.Context) error
	// Synchronize blocks until the operation is done.
	Synchronize(ctx context.Context) error
	// Done reports without blocking whether it is done.
	Done() bool
}

// Backend carries out a group's operations on tensors of one device. Its methods may be called from any goroutine; Run is
// called in the order of the operations.
type Backend interface {
	// Run enqueues a call, on the caller's stream unless it is Async. It returns a Pending for Async calls only. A Barrier is
	// always Async, and its Pending a mark: done when what came before it on this rank is.
	Run(ctx context.Context, c *Call) (Pending, error)
	// Abort ends what is pending because the group has failed, and everything that comes later. It does not wait.
	Abort(cause error)
	// Close gives everything back, after Abort or when nothing is pending. It may wait for goroutines that call Fail.
	Close() error
}

// Opener makes a group's backend for the device of the first tensor that the group sees. All ranks call it at the same
// operation. The group's CPU collectives, Aside, Store, Fail and Err are the backend's to use.
type Opener func(ctx context.Context, g *Group, d colligo.Device) (Backend, error)

// Log returns the group's logger, for backends.
func (g *Group) Log() *slog.Logger { return g.orOutside().log }

// Fail ends the group with an error that a backend has met; the peers hear of it.
func (g *Group) Fail(err error) {
	if g.IsMember() {
		g.fail(err, true)
	}
}

// backendFor returns the group's backend for a device, and opens it at first use. The caller holds g.order.
func (g *Group) backendFor(ctx context.Context, d colligo.Device) (Backend, error) {
	if b := g.backends.get(d); b != nil {
		return b, nil
	}
	open, err := g.opener(d)
	if err != nil {
		return nil, err
	}
	b, err := open(asOwn(ctx), g, d)
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
func (g *Group) openedFor(ctx context.Context, r *request) (Backend, error) {
	if err := g.Err(); err != nil {
		return nil, g.explain(r, 0, err, true)
	}
	b, err := g.backendFor(ctx, r.device)
	if err != nil {
		return nil, g.explain(r, 0, err, false)
	}
	return b, g.refuseAfterDeath(r) // of a peer that died before there was a backend to tell
}

// BackendFor returns the group's backend for a device, opened if no operation has opened it yet: all ranks call it
// together, then. What a backend offers beside operations, such as registration of memory, begins with it.
func (g *Group) BackendFor(ctx context.Context, d colligo.Device) (Backend, error) {
	if !g.IsMember() {
		return nil, ErrNotMember
	}
	g.order.Lock()
	defer g.order.Unlock()
	if err := g.Err(); err != nil {
		return nil, err
	}
	return g.backendFor(ctx, d)
}

// backends are those that a group has opened, by device.
type backends struct {
	sync.Mutex
	by    map[colligo.Device]Backend
	order []Backend // as they were opened, which is the same on all ranks
	// The backend of the last operation, under Group.order: most programs have one, which then takes neither lock nor map.
	last       Backend
	lastDevice colligo.Device
}

// get returns the backend of a device, nil if none is open. The caller holds g.order.
func (bs *backends) get(d colligo.Device) Backend {
	if bs.last == nil || bs.lastDevice != d {
		bs.last, bs.lastDevice = bs.opened(d), d
	}
	return bs.last
}

func (bs *backends) opened(d colligo.Device) Backend {
	bs.Lock()
	defer bs.Unlock()
	return bs.by[d]
}

func (bs *backends) put(d colligo.Device, b Backend) {
	bs.Lock()
	defer bs.Unlock()
	if bs.by == nil {
		bs.by = map[colligo.Device]Backend{}
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
func (g *Group) onDevice(ctx context.Context, r *request, async bool) (Pending, error) {
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
func (g *Group) give(ctx context.Context, b Backend, r *request, seq uint64, async bool) (Pending, error) {
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
	g.deviceCall.of(r, seq, async)
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

// of makes c the call of a request. Field by field: a struct of this size that is assigned as a whole is made elsewhere first.
func (c *Call) of(r *request, seq uint64, async bool) {
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
