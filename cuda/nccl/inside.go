package nccl

import (
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/plan"
)

// inside is the call of the library in which the rank is. A call that blocks may stay in the library for ever: the first calls of a
// communicator link the ranks, and wait for them. Only the watchdog can end such a call, by the group's failure.
type inside struct {
	now atomic.Uint64 // a number of the call, and in the lowest byte its collective plus one, 0 if the call has returned

	// Of the watchdog alone.
	seen  uint64
	since time.Time
}

// enter notes that a call begins. The caller holds the order's lock.
func (i *inside) enter(c plan.Coll) { i.now.Store((i.now.Load()>>8+1)<<8 | uint64(c) + 1) }

// leave notes that it has returned.
func (i *inside) leave() { i.now.Store(i.now.Load() &^ 0xff) }

// look returns the collective of a call that has not returned, and for how long the watchdog has seen it.
func (i *inside) look() (plan.Coll, time.Duration) {
	now := i.now.Load()
	coll := now & 0xff
	if coll == 0 {
		return 0, 0
	}
	if now != i.seen {
		i.seen, i.since = now, time.Now()
	}
	return plan.Coll(coll - 1), time.Since(i.since)
}
