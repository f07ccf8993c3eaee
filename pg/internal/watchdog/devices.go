package watchdog

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
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

	queues [numQueues]queue
	// Of callers, who hold the order of the group's operations.
	calls map[backend.Backend]*Calls
	held  bool // calls since Hold have their Pending to come

	looking atomic.Bool // the goroutine runs; it changes under mu
	_       [64]byte    // callers read what stands above, each look writes what stands below

	mu        sync.Mutex
	block     block // that has begun and not ended, if one has
	deadlines deadlines
	leavers   map[int]Leaver // by peer
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

// entry is an operation on a device. It is no larger than a line of memory, for one CPU writes it and another reads it. Each
// line that changes hands costs the caller as much as a lock.
type entry struct {
	id         flight.ID
	number     uint64 // the operation's own
	bytes      int
	run        uint64 // number of its call
	calls      *Calls // of its backend
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

// Calls are a backend's calls by queue, and how many of them are known to be over. Asking the backend stands in the way of its
// callers, so it is asked once for all that are over, not for each.
type Calls struct {
	ran     [numKinds]uint64 // of callers
	_       [64]byte
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
func (d *Devices) Add(c *Calls, o *op.Op, p backend.Pending) {
	q := queueOf(o.Coll)
	c.ran[q]++
	if !o.Own {
		d.queue(q, c, o, p)
	}
}

// queue puts an operation into its queue. The caller holds the order.
func (d *Devices) queue(q int, c *Calls, o *op.Op, p backend.Pending) {
	all := &d.queues[q]
	if all.at == all.room {
		d.makeRoom(q)
	}
	e := all.entry(all.at) // field by field: a struct of this size that is assigned as a whole is made elsewhere first
	e.id, e.number, e.bytes, e.run, e.calls = flight.ID(o.ID), o.Number, o.Bytes(), c.ran[q], c
	e.coll, e.kind, e.dtype, e.reduce, e.device = o.Coll, o.Type(), o.DType, o.Reduce, o.Device
	if o.P2P() {
		e.root, e.peer, e.later = o.Tag, o.Peer, 0
	} else {
		_, later := o.Seq.Split()
		e.root, e.peer, e.later = o.Root, o.Signature(), uint16(later)
	}
	e.more, e.held = nil, d.held && p == nil
	if p != nil || d.held || d.log.Hooks.Any() {
		e.more = &more{record: oplog.EntryOf(o, nil), pending: p}
	}
	all.add()
	if all.at == all.long {
		d.askIfLong(all)
	}
	d.start()
}

// makeRoom has room in a queue for the next operation. The caller holds the order.
func (d *Devices) makeRoom(q int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queues[q].makeRoom(q == blocks)
}

// askIfLong asks for a look at once if a queue is long. The caller holds the order.
func (d *Devices) askIfLong(q *queue) {
	if !q.isLong() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case d.full <- struct{}{}:
	default: // a look is asked for already, or the goroutine is to start
	}
}

// Skip counts a call that a backend has enqueued and that is over with the next of its kind, which Add takes over. The caller holds
// the order of the group's operations.
func (c *Calls) Skip(coll plan.Coll) { c.ran[queueOf(coll)]++ }

// Watch has the group told when an asynchronous operation is late, whose deadline is known. The caller holds the order of the group's
// operations.
func (d *Devices) Watch(o *op.Op, p backend.Pending) {
	d.deadlines.add(pending{o, p})
	d.start()
}

// CallsOf returns a backend's calls, which Add takes. The caller holds the order of the group's operations.
func (d *Devices) CallsOf(b backend.Backend) *Calls {
	c := d.calls[b]
	if c == nil {
		if d.calls == nil {
			d.calls = map[backend.Backend]*Calls{}
		}
		c = &Calls{}
		c.tracker, _ = b.(backend.Tracker)
		d.calls[b] = c
	}
	return c
}

// start starts the goroutine if nothing looks. The caller holds the order, and has added an operation. If the goroutine is about to end,
// either it sees that operation, or the caller sees that it ends: see idle.
func (d *Devices) start() {
	if !d.looking.Load() {
		d.launch()
	}
}

// launch starts the goroutine if nothing looks. The caller holds the order.
func (d *Devices) launch() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.looking.Load() || d.ended || d.held {
		return
	}
	d.looking.Store(true)
	d.stop, d.gone, d.full = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
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
	for q := range d.queues {
		if gone, added := d.queues[q].ends(); gone < added {
			return false
		}
	}
	return true
}

// Added returns how many operations were taken over so far.
func (d *Devices) Added() (n int) {
	for q := range d.queues {
		_, added := d.queues[q].ends()
		n += added
	}
	return n
}

// Hold begins a block of calls that are launched as one. The caller holds the order of the group's operations until Release.
func (d *Devices) Hold() { d.held = true }

// Release gives the calls since Hold their Pending, nil if there is none.
func (d *Devices) Release(p backend.Pending) {
	d.held = false
	d.giveHeld(p)
	d.start()
}

// giveHeld gives operations that were held their Pending.
func (d *Devices) giveHeld(p backend.Pending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for q := range d.queues {
		all := &d.queues[q]
		gone, added := all.ends()
		for i := gone; i < added; i++ {
			if e := all.entry(i); e.held {
				e.held, e.more.pending = false, p
			}
		}
	}
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
	d.looking.Store(false) // first: a caller that adds from here on waits for mu
	if d.nothing() && !d.deadlines.any() {
		return true
	}
	d.looking.Store(true)
	return false
}

// Close ends the watchdog when the backends are closed, after a last look.
func (d *Devices) Close() {
	if d.log == nil {
		return // of a rank outside the group
	}
	d.mu.Lock()
	looking, stop, gone := d.looking.Load() && !d.ended, d.stop, d.gone
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
	return d.looking.Load(), len(d.deadlines.queue) + len(d.deadlines.odd)
}
