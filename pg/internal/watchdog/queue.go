package watchdog

import (
	"sync/atomic"

	"github.com/colligo-go/colligo/internal/prefetch"
)

// The queues. Operations that stand for a block have one of their own, for a block may be over after later operations.
const (
	collectives = iota
	sends
	receives
	numKinds  // of operations that a backend is given
	blocks    = numKinds
	numQueues = blocks + 1
)

// queue is the operations of one kind, the oldest first: a ring. A caller adds without a lock, for a lock in each call would wait until
// all that the call has written has reached the cache. The watchdog drops.
//
// Invariants:
//  1. The watchdog reads places from gone to added, and nobody writes them but under Devices.mu. Only callers touch the others.
//  2. Only callers make the rings longer, under Devices.mu. The watchdog reads them under it.
//
// Callers are one after the other: they hold the order of the group's operations.
type queue struct {
	// Of callers.
	entries []entry      // a power of two; operation i since the beginning is at i modulo its length
	blocks  []block      // what the entries of blocks stand for, at the same places; empty in the other queues
	at      int          // the place of the next operation
	room    int          // the place for which there is no room, by what callers have seen of gone
	long    int          // the place at which callers look anew whether the queue is long
	added   atomic.Int64 // at, as others see it

	_    [64]byte     // callers write what stands above, the watchdog what stands below
	gone atomic.Int64 // how many are gone since the beginning
	_    [64]byte     // the next queue's fields of callers
}

// shortQueue is the length of a ring at first.
const shortQueue = 64

// longQueue is after how many pending operations of one queue a look comes at once. Callers count them at that place, and from then on once in
// half as many calls. Callers that enqueue small operations would else fill megabytes of new memory before the next look, with a page fault
// for each 64.
const longQueue = 2048

// entry returns the entry of the operation i since the beginning.
func (q *queue) entry(i int) *entry { return &q.entries[i&(len(q.entries)-1)] }

// block returns what an entry of blocks stands for.
func (q *queue) block(i int) *block { return &q.blocks[i&(len(q.blocks)-1)] }

// ends returns how many operations are gone since the beginning, and how many there have been.
func (q *queue) ends() (gone, added int) { return int(q.gone.Load()), int(q.added.Load()) }

// add makes the next operation, which the caller has written to its place, known to the watchdog. It asks for the memory of the place after
// it, which the watchdog's CPU has read.
func (q *queue) add() {
	q.at++
	q.added.Store(int64(q.at))
	prefetch.Next(q.entry(q.at))
}

// makeRoom has room for the next operation. The caller holds Devices.mu.
func (q *queue) makeRoom(withBlocks bool) {
	gone := int(q.gone.Load())
	if q.at == gone+len(q.entries) {
		n := max(2*len(q.entries), shortQueue)
		q.entries = lengthened(q.entries, n, gone, q.at)
		if withBlocks {
			q.blocks = lengthened(q.blocks, n, gone, q.at)
		}
	}
	q.room = gone + len(q.entries)
	if q.long == 0 {
		q.long = longQueue
	}
}

// lengthened returns a ring of n that has the places from one to another of a shorter ring.
func lengthened[T any](ring []T, n, from, to int) []T {
	longer := make([]T, n)
	for i := from; i < to; i++ {
		longer[i&(n-1)] = ring[i&(len(ring)-1)]
	}
	return longer
}

// isLong reports whether so many are pending now that a look is to come at once.
func (q *queue) isLong() bool {
	q.long = q.at + longQueue/2
	return q.at-int(q.gone.Load()) >= longQueue
}

// drop forgets the n oldest. The caller holds Devices.mu.
func (q *queue) drop(n int) {
	gone := int(q.gone.Load())
	for i := gone; i < gone+n; i++ {
		if e := q.entry(i); e.more != nil { // what it keeps alive; other lines stay as they are
			e.more = nil
		}
	}
	q.gone.Store(int64(gone + n))
}
