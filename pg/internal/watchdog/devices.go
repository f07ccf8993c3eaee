package watchdog

import (
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/prefetch"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/oplog"
	"github.com/colligo-go/colligo/plan"
)

// Group is what the watchdog asks and tells its group.
type Group interface {
	// Err returns the group's first error.
	Err() error
	// Late fails the group because an asynchronous operation has had its time.
	Late(o *op.Op)
	// Freed hears that an asynchronous operation is over, so that its time may go to others.
	Freed(o *op.Op)
	// Lingers hears that a collective like o is not over soon.
	Lingers(o *op.Op)
	// Stalled hears that an operation like o has stood still for some time.
	Stalled(o *op.Op)
	// Abandoned hears that an operation like o can never end, because a peer has left the group before it.
	Abandoned(o *op.Op, peer int)
	// Passed hears that the devices are through with the collectives up to a place.
	Passed(at op.Seq)
	// Left hears that n sends to a peer, or receives from it, are not pending any more.
	Left(coll plan.Coll, peer, n int)
}

// Devices is the watchdog of one group's operations on devices.
type Devices struct {
	group Group
	log   *oplog.Log

	mu        sync.Mutex
	queues    [numQueues]queue
	block     block // that has begun and not ended, if one has
	runs      map[backend.Backend]*runs
	last      backend.Backend // the one asked for last, and its runs
	lastOf    *runs
	deadlines deadlines
	leavers   map[int]Leaver // by peer
	held      bool           // calls since Hold have their Pending to come
	looking   bool
	ended     bool
	hurried   bool // every look follows soon after the one before
	stop      chan struct{}
	gone      chan struct{}
	full      chan struct{} // asks for a look, because a queue has grown long

	standing [numKinds]standing // by queue; of the goroutine that looks

	eyes sync.Mutex // held during a look; taken before mu
	// Owned by the holder of eyes.
	batch    *[32]entry    // made by the first look
	blocks   [32]block     // copies of the blocks that a batch's entries stand for
	through  [numKinds]int // how many operations of each queue were gone when the copies were made
	over     []flight.Done // of the batch, to be told the recorder
	messages messages
}

// The queues. Operations that stand for a block have one of their own, for a block may be over after later operations.
const (
	collectives = iota
	sends
	receives
	numKinds  // of operations that a backend is given
	blocks    = numKinds
	numQueues = blocks + 1
)

// queue is the operations of one kind, the oldest first.
type queue struct {
	entries []entry
	blocks  []block // what the entries of blocks stand for; empty in the other queues
	head    int     // entries before it are gone
	gone    int     // how many are gone since the beginning
}

// added returns how many operations there have been.
func (q *queue) added() int { return q.gone + len(q.entries) - q.head }

// entry is an operation on a device. It is no larger than a line of memory, for one CPU writes it and another reads it. Each
// line that changes hands costs the caller as much as a lock.
type entry struct {
	id         flight.ID
	number     uint64 // the operation's own
	bytes      int
	run        uint64 // number of its call
	runs       *runs  // of its backend
	more       *more
	root, peer int32  // of a message the tag and the peer; peer of a collective that stands for several is its signature
	later      uint16 // of a collective, how many came before it since the one that had its number first
	coll       plan.Coll
	kind       op.Type
	dtype      colligo.DType
	reduce     colligo.OpKind
	device     colligo.DeviceKind
	held       bool
}

// more is the rest of what is known of an operation that has a Pending or that hooks hear of; nil for the others.
type more struct {
	record  oplog.Entry
	pending backend.Pending // nil: the backend is asked
	begun   bool            // the recorder knows; of the holder of eyes
}

// record is what the log takes.
func (e *entry) record() oplog.Entry {
	if e.more != nil {
		return e.more.record
	}
	r := oplog.Entry{ID: e.id, Type: e.kind, Number: e.number, Bytes: e.bytes, DType: e.dtype, Peer: colligo.NoRank}
	if e.kind.P2P() {
		r.Peer = int(e.peer)
	}
	return r
}

// runs are a backend's calls by queue, and how many of them are known to be over. Asking the backend stands in the way of its
// callers, so it is asked once for all that are over, not for each.
type runs struct {
	ran     [numKinds]uint64 // under Devices.mu
	over    [numKinds]uint64 // of the holder of eyes
	tracker backend.Tracker  // the backend, nil if it is none
}

// A pause between two looks is short at first, and doubles up to longPause while nothing moves. A look costs driver calls, which keep
// the callers' launches waiting. So it also doubles, up to busyPause, while each look finds busyLook operations over or more. Then a
// millisecond does not tell their ends apart.
const (
	shortPause = time.Millisecond
	busyPause  = 16 * time.Millisecond
	longPause  = 50 * time.Millisecond
	busyLook   = 64
)

// longQueue is after how many operations in one queue a look comes at once. Callers that enqueue small operations would else fill megabytes of
// new memory before the next look, with a page fault for each 64.
const longQueue = 2048

// Open makes the watchdog look after the devices of a group.
func (d *Devices) Open(g Group, log *oplog.Log) { d.group, d.log = g, log }

func queueOf(coll plan.Coll) int {
	switch coll {
	case plan.Send:
		return sends
	case plan.Recv:
		return receives
	}
	return collectives
}

// Add takes over an operation that a backend has enqueued, with its Pending if it has one. The caller holds the order of the
// group's operations.
func (d *Devices) Add(b backend.Backend, o *op.Op, p backend.Pending) {
	q := queueOf(o.Coll)
	d.mu.Lock()
	runs := d.runsOf(b)
	runs.ran[q]++
	if !o.Own {
		d.queue(q, runs, o, p)
	}
	d.mu.Unlock()
}

// next asks for the memory of the next entry, which the watchdog's CPU has cleared.
func (q *queue) next() {
	if n := len(q.entries); n < cap(q.entries) {
		prefetch.Next(&q.entries[:n+1][n])
	}
}

// queue puts an operation into its queue. The caller holds d.mu.
func (d *Devices) queue(q int, runs *runs, o *op.Op, p backend.Pending) {
	all := &d.queues[q]
	all.entries = append(all.entries, entry{})
	e := &all.entries[len(all.entries)-1] // field by field: a struct of this size that is assigned as a whole is made elsewhere first
	e.id, e.number, e.bytes, e.run, e.runs = flight.ID(o.ID), o.Number, o.Bytes(), runs.ran[q], runs
	e.coll, e.kind, e.dtype, e.reduce, e.device = o.Coll, o.Type(), o.DType, o.Reduce, o.Device
	e.root, e.peer = o.Root, o.Peer
	if o.P2P() {
		e.root = o.Tag
	} else {
		_, later := o.Seq.Split()
		e.later, e.peer = uint16(later), o.Signature()
	}
	if p != nil || d.held || d.log.Hooks.Any() {
		e.more, e.held = &more{record: oplog.EntryOf(o, nil, time.Time{}), pending: p}, d.held && p == nil
	}
	all.next()
	if (len(all.entries)-all.head)%longQueue == 0 {
		select {
		case d.full <- struct{}{}:
		default: // a look is asked for already, or the goroutine is to start
		}
	}
	d.start()
}

// Skip counts a call that a backend has enqueued and that is over with the next of its kind, which Add takes over. The caller holds
// the order of the group's operations.
func (d *Devices) Skip(b backend.Backend, coll plan.Coll) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runsOf(b).ran[queueOf(coll)]++
}

// Watch has the group told when an asynchronous operation is late, whose deadline is known.
func (d *Devices) Watch(o *op.Op, p backend.Pending) {
	d.deadlines.add(pending{o, p})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.start()
}

// runsOf returns a backend's runs. The caller holds d.mu.
func (d *Devices) runsOf(b backend.Backend) *runs {
	if d.last != b {
		d.last, d.lastOf = b, d.find(b)
	}
	return d.lastOf
}

// find returns a backend's runs, which are made by its first call. The caller holds d.mu.
func (d *Devices) find(b backend.Backend) *runs {
	r := d.runs[b]
	if r == nil {
		if d.runs == nil {
			d.runs = map[backend.Backend]*runs{}
		}
		r = &runs{}
		r.tracker, _ = b.(backend.Tracker)
		d.runs[b] = r
	}
	return r
}

// start starts the goroutine if nothing looks. The caller holds d.mu.
func (d *Devices) start() {
	if !d.looking && !d.ended && !d.held {
		d.launch()
	}
}

// launch starts the goroutine. The caller holds d.mu.
func (d *Devices) launch() {
	d.looking, d.stop, d.gone, d.full = true, make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	go d.watch(d.stop, d.gone, d.full)
}

// Hurry has every look follow soon after the one before, for a group that waits for its operations to end.
func (d *Devices) Hurry() {
	d.mu.Lock()
	d.hurried = true
	d.mu.Unlock()
	d.Refresh()
}

// patience bounds how long Refresh waits for a driver.
const patience = 100 * time.Millisecond

// Refresh looks at once, so that the recorder knows how far the devices have come. It gives up on a driver that does not
// answer. It may be called at any time, but not by a Pending.
func (d *Devices) Refresh() { d.lookWithin(patience) }

// lastPatience bounds how long LookLast waits. A busy machine may hold up a goroutine so long, and with it the look that it has begun.
const lastPatience = 10 * time.Second

// LookLast looks as Refresh does, but has more patience: after it what has not ended counts as failed.
func (d *Devices) LookLast() { d.lookWithin(lastPatience) }

// lookWithin looks, and gives up after so long on a driver that does not answer.
func (d *Devices) lookWithin(patience time.Duration) {
	if d.nothing() {
		return
	}
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		d.look(false)
	}()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-looked:
	case <-limit.C:
	}
}

// nothing reports whether no operation is to be concluded.
func (d *Devices) nothing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.empty()
}

// empty reports whether no operation is to be concluded. The caller holds d.mu.
func (d *Devices) empty() bool {
	for q := range d.queues {
		if d.queues[q].head < len(d.queues[q].entries) {
			return false
		}
	}
	return true
}

// Hold begins a block of calls that are launched as one.
func (d *Devices) Hold() {
	d.mu.Lock()
	d.held = true
	d.mu.Unlock()
}

// Release gives the calls since Hold their Pending, nil if there is none.
func (d *Devices) Release(p backend.Pending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = false
	for q := range d.queues {
		all := &d.queues[q]
		for i := all.head; i < len(all.entries); i++ {
			if e := &all.entries[i]; e.held {
				e.held, e.more.pending = false, p
			}
		}
	}
	d.start()
}

// watch is the watchdog's goroutine.
func (d *Devices) watch(stop <-chan struct{}, gone chan<- struct{}, full <-chan struct{}) {
	defer close(gone)
	pause := shortPause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		case <-full:
		}
		pause = nextPause(pause, d.look(false), d.inHurry())
		d.tellStalled(time.Now())
		if late := d.deadlines.late(time.Now(), d.group.Freed); late != nil && d.group.Err() == nil {
			d.group.Late(late)
		}
		if d.idle() {
			return
		}
		timer.Reset(pause)
	}
}

// nextPause returns the pause after a look that found some operations over.
func nextPause(pause time.Duration, over int, hurry bool) time.Duration {
	switch {
	case hurry, over > 0 && over < busyLook:
		return shortPause
	case over > 0:
		return min(2*pause, busyPause)
	}
	return min(2*pause, longPause)
}

func (d *Devices) inHurry() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hurried
}

// idle ends the goroutine if there is nothing to look at.
func (d *Devices) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.empty() {
		return false
	}
	d.looking = d.deadlines.any()
	return !d.looking
}

// Close ends the watchdog when the backends are closed, after a last look.
func (d *Devices) Close() {
	if d.log == nil {
		return // of a rank outside the group
	}
	d.mu.Lock()
	looking, stop, gone := d.looking && !d.ended, d.stop, d.gone
	d.ended = true
	d.mu.Unlock()
	if looking {
		close(stop)
		<-gone
	}
	d.look(true)
}

// Left reports whether the goroutine looks, and of how many operations it watches the deadlines.
func (d *Devices) Left() (looking bool, watched int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deadlines.mu.Lock()
	defer d.deadlines.mu.Unlock()
	return d.looking, len(d.deadlines.queue) + len(d.deadlines.odd)
}
