package pg

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/plan"
)

// follower looks at what devices do, so that the recorder, the metrics and the hooks hear of what nobody waits for. Its
// goroutine lives while there is something to look at.
type follower struct {
	mu      sync.Mutex
	queues  [3][]followed // of collectives, sends, receives, the oldest first
	heads   [3]int        // those before are gone
	runs    map[backend.Backend]*runs
	last    backend.Backend // the one asked for last, and its runs
	lastOf  *runs
	held    bool // calls since hold have their Pending to come
	looking bool
	ended   bool
	stop    chan struct{}
	gone    chan struct{}

	batch [32]followed  // of who looks
	over  []flight.Done // of the batch, to be told the recorder
}

// followed is an operation on a device. It is small, for one CPU writes it and another reads it, and each line of memory that
// changes hands costs who enqueues as much as a lock.
type followed struct {
	id    flight.ID
	seq   uint64 // the operation's own number
	bytes int
	run   uint64 // number of its call
	runs  *runs  // of its backend
	more  *followedMore
	coll  plan.Coll
	kind  OpType
	held  bool
}

// followedMore is the rest of what is known of an operation that has a Pending or that hooks hear of; nil for the others.
type followedMore struct {
	rec     record
	pending backend.Pending // nil: the backend is asked
}

// record is what conclude takes.
func (op *followed) record() record {
	if op.more != nil {
		return op.more.rec
	}
	return record{id: op.id, kind: op.kind, bytes: op.bytes, counts: counts{coll: op.seq, pairs: op.seq}}
}

// runs are a backend's calls by queue, and how many of them are known to be over. Asking the backend stands in the way of
// who enqueues, so it is asked once for all that are over, not for each.
type runs struct {
	ran     [3]uint64       // under follower.mu
	over    [3]uint64       // of who looks
	tracker backend.Tracker // the backend, nil if it is none
}

// The first and the longest pause between two looks.
const (
	briskly = time.Millisecond
	lazily  = 50 * time.Millisecond
)

func followedQueue(coll plan.Coll) int {
	switch coll {
	case plan.Send:
		return 1
	case plan.Recv:
		return 2
	}
	return 0
}

// follow takes over an operation that a backend has enqueued. The caller holds g.order.
func (g *Group) follow(b backend.Backend, r *request, p backend.Pending) {
	f, q := &g.ledger.devices, followedQueue(r.coll)
	f.mu.Lock()
	defer f.mu.Unlock()
	runs := f.runsOf(b)
	runs.ran[q]++
	if r.rec.own {
		return
	}
	op := followed{id: r.rec.id, seq: r.rec.number(), bytes: r.rec.bytes, run: runs.ran[q], runs: runs, coll: r.coll, kind: r.rec.kind}
	if p != nil || f.held || g.ledger.hooks.any.Load() {
		op.more, op.held = &followedMore{r.rec, p}, f.held && p == nil
	}
	f.queues[q] = append(f.queues[q], op)
	if f.looking || f.ended || f.held {
		return
	}
	f.start(g)
}

// runsOf returns a backend's runs. The caller holds f.mu.
func (f *follower) runsOf(b backend.Backend) *runs {
	if f.last == b {
		return f.lastOf
	}
	r := f.runs[b]
	if r == nil {
		if f.runs == nil {
			f.runs = map[backend.Backend]*runs{}
		}
		r = &runs{}
		r.tracker, _ = b.(backend.Tracker)
		f.runs[b] = r
	}
	f.last, f.lastOf = b, r
	return r
}

func (f *follower) start(g *Group) {
	f.looking, f.stop, f.gone = true, make(chan struct{}), make(chan struct{})
	go g.followDevices(f.stop, f.gone)
}

// hold begins a block of calls that are launched as one.
func (f *follower) hold() {
	f.mu.Lock()
	f.held = true
	f.mu.Unlock()
}

// release gives the calls since hold their Pending, nil if there is none.
func (g *Group) release(p backend.Pending) {
	f := &g.ledger.devices
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = false
	for q, ops := range f.queues {
		for i := f.heads[q]; i < len(ops); i++ {
			if ops[i].held {
				ops[i].held, ops[i].more.pending = false, p
			}
		}
	}
	if !f.looking && !f.ended {
		f.start(g)
	}
}

// followDevices is the follower's goroutine.
func (g *Group) followDevices(stop <-chan struct{}, gone chan<- struct{}) {
	defer close(gone)
	f, pause := &g.ledger.devices, briskly
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		if pause = min(2*pause, lazily); g.look(false) {
			pause = briskly
		}
		if f.idle() {
			return
		}
		timer.Reset(pause)
	}
}

// idle ends the goroutine if there is nothing to look at.
func (f *follower) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for q := range f.queues {
		if f.heads[q] < len(f.queues[q]) {
			return false
		}
	}
	f.looking = false
	return true
}

// look concludes what is over at the head of each queue; last also what never will be. Only one goroutine looks at a time.
func (g *Group) look(last bool) (moved bool) {
	f := &g.ledger.devices
	for q := range f.queues {
		for n := len(f.batch); n == len(f.batch); {
			n = g.concludeSome(f.some(q), last)
			f.drop(q, n)
			moved = moved || n > 0
		}
	}
	return moved
}

// concludeSome concludes the operations before the first that is not over, and returns how many those were.
func (g *Group) concludeSome(ops []followed, last bool) (n int) {
	now := time.Now()
	for ; n < len(ops); n++ {
		over, err := g.over(&ops[n])
		if !over && !last {
			break
		}
		if !over {
			err = g.Err()
		}
		g.concludeDevice(&ops[n], err, now)
	}
	g.ledger.recorder.Conclude(g.ledger.number, g.ledger.devices.over, now)
	g.ledger.devices.over = g.ledger.devices.over[:0]
	g.ledger.pending.done(n)
	return n
}

// some returns a copy of the oldest of a queue. Many at once, for who looks stands in the way of who enqueues.
func (f *follower) some(q int) []followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.batch[:copy(f.batch[:], f.queues[q][f.heads[q]:])]
}

// drop forgets the n oldest of a queue; what is gone makes room when it is more than half.
func (f *follower) drop(q, n int) {
	clear(f.batch[:])
	if n == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ops := f.queues[q]
	clear(ops[f.heads[q] : f.heads[q]+n])
	f.heads[q] += n
	if f.heads[q] > len(ops)/2 {
		n := copy(ops, ops[f.heads[q]:])
		clear(ops[n:])
		f.queues[q], f.heads[q] = ops[:n], 0
	}
}

// over reports whether an operation is over, and its error.
func (g *Group) over(op *followed) (bool, error) {
	if op.held {
		return false, nil
	}
	if op.more != nil && op.more.pending != nil {
		if !op.more.pending.Done() {
			return false, nil
		}
		return true, op.more.pending.Synchronize(context.Background())
	}
	t, over := op.runs.tracker, &op.runs.over[followedQueue(op.coll)]
	if t != nil && *over < op.run {
		*over = t.Finished(op.coll)
	}
	if t != nil && *over >= op.run {
		return true, nil
	}
	if err := g.Err(); err != nil && err != colligo.ErrClosed {
		return true, err
	}
	return t == nil, nil // where nobody can tell, what the call returned is all that is known
}

// concludeDevice concludes an operation on a device, whose duration only the device knows. It goes on to count as pending.
func (g *Group) concludeDevice(op *followed, err error, now time.Time) {
	if errors.Is(err, backend.ErrCaptured) {
		g.ledger.recorder.Retire(op.id)
		return
	}
	rec := op.record()
	rec.ended = now
	if op.more == nil {
		done := flight.Done{ID: op.id, Seq: op.seq, Failed: err != nil}
		if op.kind.P2P() {
			done.Seq = 0
		}
		g.ledger.devices.over = append(g.ledger.devices.over, done)
		g.ledger.metrics.add(&rec, -1, err)
		return
	}
	if t, ok := op.more.pending.(backend.Timed); ok && err == nil {
		if d, ok := t.Took(); ok {
			rec.began = rec.ended.Add(-d)
		}
	}
	g.ledger.note(&rec, err, g.ledger.hooks.any.Load())
}

// endFollowing stops the follower when the backends are closed, after a last look.
func (g *Group) endFollowing() {
	f := &g.ledger.devices
	f.mu.Lock()
	looking, stop, gone := f.looking && !f.ended, f.stop, f.gone
	f.ended = true
	f.mu.Unlock()
	if looking {
		close(stop)
		<-gone
	}
	g.look(true)
}
