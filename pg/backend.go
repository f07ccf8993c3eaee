package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
	// Run enqueues a call, on the caller's stream unless it is Async. It returns a Pending for Async calls only.
	Run(ctx context.Context, c *Call) (Pending, error)
	// Abort ends what is pending because the group has failed, and everything that comes later.
	Abort(cause error)
	// Close gives everything back, after Abort or when nothing is pending.
	Close() error
}

// Opener makes a group's backend for the device of the first tensor that the group sees. All ranks call it at the same
// operation. The group's CPU collectives, Store, Fail and Err are the backend's to use.
type Opener func(ctx context.Context, g *Group, d colligo.Device) (Backend, error)

var openers struct {
	sync.Mutex
	by map[colligo.DeviceKind]Opener
}

// RegisterBackend makes groups use a backend for tensors of a kind of device. Backends call it from an init function, so
// that importing one is all a program does. A second backend for a kind panics.
func RegisterBackend(kind colligo.DeviceKind, open Opener) {
	openers.Lock()
	defer openers.Unlock()
	if openers.by == nil {
		openers.by = map[colligo.DeviceKind]Opener{}
	}
	if kind == colligo.CPU || openers.by[kind] != nil {
		panic(fmt.Sprintf("pg: second backend for %v tensors", kind))
	}
	openers.by[kind] = open
}

// Fail ends the group with an error that a backend has met; the peers hear of it.
func (g *Group) Fail(err error) { g.fail(err, true) }

// backendFor returns the group's backend for a device, and opens it at first use. The caller holds g.order.
func (g *Group) backendFor(ctx context.Context, d colligo.Device) (Backend, error) {
	if b := g.backends.get(d); b != nil {
		return b, nil
	}
	openers.Lock()
	open := openers.by[d.Kind]
	openers.Unlock()
	if open == nil {
		return nil, fmt.Errorf("no backend for %v tensors in this program: import one", d.Kind)
	}
	b, err := open(ctx, g, d)
	if err != nil {
		return nil, fmt.Errorf("opening the backend of %v: %w", d, err)
	}
	g.backends.put(d, b)
	return b, nil
}

// backends are those that a group has opened, by device.
type backends struct {
	sync.Mutex
	by map[colligo.Device]Backend
}

func (bs *backends) get(d colligo.Device) Backend {
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

// close ends all of them.
func (bs *backends) close() error {
	bs.Lock()
	defer bs.Unlock()
	var all []error
	for _, b := range bs.by {
		all = append(all, b.Close())
	}
	bs.by = nil
	return errors.Join(all...)
}

// onDevice gives a call to the backend of its device.
func (g *Group) onDevice(ctx context.Context, r *request, async bool) (Pending, error) {
	g.order.Lock()
	defer g.order.Unlock()
	if err := g.Err(); err != nil {
		return nil, g.explain(r, 0, err, true)
	}
	b, err := g.backendFor(ctx, r.device)
	if err != nil {
		return nil, g.explain(r, 0, err, false)
	}
	seq := g.number(r.coll)
	g.entered.set(g.identityOf(r, seq))
	g.deviceCall = Call{Coll: r.coll, DType: r.dtype, Op: r.op, Root: r.root, Peer: r.peer, Tag: r.tag, Count: r.count,
		Counts: r.counts, RecvCounts: r.recv, In: r.src, Out: r.dst, Ins: r.ins, Outs: r.outs, Seq: seq, Async: async}
	p, err := b.Run(ctx, &g.deviceCall)
	if err != nil {
		err = g.explain(r, seq, err, false)
		g.fail(err, true)
	}
	return p, err
}

// number takes the next sequence number of a collective; sends and receives have the last collective's.
func (g *Group) number(coll plan.Coll) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if coll != plan.Send && coll != plan.Recv {
		g.seq++
	}
	return g.seq
}
