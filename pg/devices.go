package pg

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/watchdog"
)

// devices are the backends that a group has opened, by device, and the order in which they get operations.
type devices struct {
	watch    watchdog.Devices
	selected backend.Selection
	host     backend.Host // the group, as backends see it

	order sync.Mutex // held while an operation is given to a backend; taken before state.mu
	// The backend of the last operation: most programs have one, which then takes neither lock nor map.
	last       backend.Backend
	lastDevice colligo.Device
	call       backend.Call // the call at hand, reused
	inside     ownContext   // its context, for what the backend does of itself
	inCall     atomic.Int64 // since when a backend has not returned from a call, in nanoseconds since 1970; else 0

	mu     sync.Mutex
	by     map[colligo.Device]backend.Backend
	opened []backend.Backend // in the order of their opening, which is the same on all ranks
}

// get returns the backend of a device, nil if none is open. The caller holds the order.
func (d *devices) get(id colligo.Device) backend.Backend {
	if d.last == nil || d.lastDevice != id {
		d.mu.Lock()
		d.last, d.lastDevice = d.by[id], id
		d.mu.Unlock()
	}
	return d.last
}

func (d *devices) put(id colligo.Device, b backend.Backend) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[colligo.Device]backend.Backend{}
	}
	d.by[id] = b
	d.opened = append(d.opened, b)
}

// any reports whether a backend is open.
func (d *devices) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.by) > 0
}

// abort tells all backends that the group has failed. It does not wait for a Run that is blocked in a driver.
func (d *devices) abort(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.by {
		b.Abort(cause)
	}
}

// close ends all backends, in one order on all ranks, for they may wait for their peers. A backend may wait here for a
// goroutine of its own that fails the group.
func (d *devices) close(cause error) error {
	d.abort(cause)
	d.order.Lock()
	defer d.order.Unlock()
	d.mu.Lock()
	all := d.opened
	d.by, d.opened, d.last = nil, nil, nil
	d.mu.Unlock()
	var errs []error
	for _, b := range all {
		errs = append(errs, b.Close())
	}
	d.watch.Close()
	return errors.Join(errs...)
}

// run runs an operation on a backend. The caller holds the order.
func (d *devices) run(b backend.Backend, o *op.Op, async, timed bool, now time.Time) (backend.Pending, error) {
	d.inside.Context = o.Ctx
	fill(&d.call, o, async)
	d.call.Timed = timed && !o.Own
	d.inCall.Store(now.UnixNano())
	p, err := b.Run(&d.inside, &d.call)
	d.inCall.Store(0)
	if err == nil {
		d.watch.Add(b, o, p)
	}
	return p, err
}

// fill makes c the call of an operation. Field by field: a struct of this size that is assigned as a whole is made elsewhere
// first.
func fill(c *backend.Call, o *op.Op, async bool) {
	r := o.Rare()
	c.Coll, c.DType, c.Op = o.Coll, o.DType, o.ReduceOp()
	c.Root, c.Peer, c.Tag, c.Count = int(o.Root), int(o.Peer), int(o.Tag), o.Count
	c.Counts, c.RecvCounts = r.Counts, r.Recvs
	c.In, c.Out, c.Ins, c.Outs = o.In, o.Out, r.Ins, r.Outs
	c.Seq, c.Async = o.Seq.Number(), async
}
