package pg

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/watchdog"
)

// devices are the backends that a group has opened, by device, and the order in which they get operations.
type devices struct {
	watch    watchdog.Devices
	selected backend.Selection
	host     backend.Host  // the group, as backends see it
	asking   chan struct{} // has an element while ranks are asked about an operation on a device that is late

	order sync.Mutex // held while an operation is given to a backend; taken before state.mu
	// The backend of the last operation: most programs have one, which then takes neither lock nor map.
	last       backend.Backend
	watched    *watchdog.Calls // its calls, for the watchdog
	lastDevice colligo.Device
	call       backend.Call // the call at hand, reused
	callRare   bool         // the last call had what few have
	timed      bool         // the calls at hand are measured
	block      blockRoom    // of the block at hand, if its call blocks
	inside     op.Own       // its context, for what the backend does of itself

	mu     sync.Mutex
	by     map[colligo.Device]backend.Backend
	opened []backend.Backend // in the order of their opening, which is the same on all ranks

	opening atomic.Bool // a backend is being opened, which may wait for any rank
	patient atomic.Bool // the holder of order waits for other ranks, and may do so for longer than a heartbeat

	// Of last, so under order.
	selective backend.Selective // nil if last has every reduction
	accepted  backend.Reduction // what selective was asked for last, if it did not refuse
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

// first returns the device of the backend that was opened first, the CPU if there is none.
func (d *devices) first() colligo.Device {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, b := range d.by {
		if b == d.opened[0] {
			return id
		}
	}
	return colligo.Device{}
}

// busy reports whether a call of a backend is under way: anything that holds the order, the end of a block too. Calls do not say so
// themselves, for that would cost each of them two exchanges with memory.
func (d *devices) busy() bool {
	if d.opening.Load() || d.patient.Load() {
		return false
	}
	if d.order.TryLock() {
		d.order.Unlock()
		return false
	}
	return true
}

// any reports whether a backend is open.
func (d *devices) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.by) > 0
}

// carried returns the counts of backends that share a device, nil if none do.
func (d *devices) carried() (all map[string]uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.by {
		s, shared := b.(backend.Shared)
		if !shared {
			continue
		}
		for name, n := range s.Carried() {
			if all == nil {
				all = map[string]uint64{}
			}
			all[name] += n
		}
	}
	return all
}

// communicators describes those of the backends that have some.
func (d *devices) communicators() map[string]map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]map[string]string{}
	for _, b := range d.by {
		if c, ok := b.(backend.Communicating); ok {
			maps.Copy(all, c.Communicators())
		}
	}
	return all
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

// splitter makes a backend for a group, or for none, out of another group's.
type splitter func(ctx context.Context, h backend.Host) (backend.Backend, error)
