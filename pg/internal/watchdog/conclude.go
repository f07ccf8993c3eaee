package watchdog

import (
	"context"
	"errors"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// look concludes the operations that are over at the head of each queue; with last, also the ones that never will be. It returns
// their number.
func (d *Devices) look(last bool) (over int) {
	d.eyes.Lock()
	defer d.eyes.Unlock()
	if d.batch == nil {
		d.batch = new([len(d.batch)]entry)
	}
	for q := range d.queues {
		for n := len(d.batch); n == len(d.batch); {
			n = d.concludeSome(q, d.some(q), last)
			d.drop(q, n)
			over += n
		}
	}
	return over
}

// concludeSome concludes the operations before the first that is not over, and returns how many those were.
func (d *Devices) concludeSome(q int, entries []entry, last bool) (n int) {
	now, passed := time.Now(), op.Seq(0)
	left := leaving{group: d.group}
	for ; n < len(entries); n++ {
		e := &entries[n]
		over, err := d.isOver(q, n, e)
		if !over && !last {
			d.begin(entries[n:], now)
			break
		}
		if !over {
			err = d.group.Err()
		}
		d.conclude(e, err, now)
		switch {
		case q == blocks:
			continue
		case q != collectives:
			d.messages.ended(q, int(e.peer), err)
			left.add(e)
		case err == nil || errors.Is(err, backend.ErrCaptured):
			passed = e.seq()
		}
		if err != nil {
			d.failed(q, n, err)
		}
	}
	left.tell()
	if passed > 0 {
		d.group.Passed(passed)
	}
	d.log.Recorder().Conclude(d.log.Group(), d.over, now)
	d.over = d.over[:0]
	d.log.Done(n)
	return n
}

// leaving gathers messages that are not pending any more. The group hears at once of all that follow one another with the same peer, for it
// takes a lock that its callers need.
type leaving struct {
	group Group
	coll  plan.Coll
	peer  int32
	n     int
}

// add takes a message. It tells the group of those before if they are others.
func (l *leaving) add(e *entry) {
	if e.coll != l.coll || e.peer != l.peer {
		l.tell()
	}
	l.coll, l.peer, l.n = e.coll, e.peer, l.n+1
}

// tell tells the group of the messages that it has not heard of.
func (l *leaving) tell() {
	if l.n > 0 {
		l.group.Left(l.coll, int(l.peer), l.n)
	}
	l.n = 0
}

// begin tells the recorder that the oldest operation that is not over is on its way, if the device has measured it. So are
// the others of its block. Entries that were held are left alone, for Release may be giving them their Pending.
func (d *Devices) begin(entries []entry, now time.Time) {
	if entries[0].held || entries[0].more == nil || entries[0].more.pending == nil {
		return
	}
	p := entries[0].more.pending
	if t, ok := p.(backend.Timed); !ok || entries[0].more.begun || !t.Begun() {
		return
	}
	for i := range entries {
		m := entries[i].more
		if entries[i].held || m == nil || m.pending != p {
			return
		}
		m.begun = true
		d.log.Recorder().StartAt(entries[i].id, now)
	}
}

// some returns a copy of the oldest of a queue. Many at once, for each copy takes the lock.
func (d *Devices) some(q int) []entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := &d.queues[q]
	gone, added := all.ends()
	n := min(added-gone, len(d.batch))
	for i := range n {
		d.batch[i] = *all.entry(gone + i)
		if q == blocks {
			d.blocks[i] = *all.block(gone + i)
		}
	}
	if q == blocks {
		for i := range d.through {
			d.through[i], _ = d.queues[i].ends()
		}
	}
	return d.batch[:n]
}

// drop forgets the n oldest of a queue.
func (d *Devices) drop(q, n int) {
	clear(d.batch[:])
	if n == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queues[q].drop(n)
}

// isOver reports whether the operation n behind the oldest of a queue is over, and its error.
func (d *Devices) isOver(q, n int, e *entry) (bool, error) {
	if e.held {
		return false, nil
	}
	if q == blocks {
		return d.blockOver(&d.blocks[n])
	}
	if e.more != nil && e.more.pending != nil {
		if !e.more.pending.Done() {
			return false, nil
		}
		return true, e.more.pending.Synchronize(context.Background())
	}
	t, over := e.calls.tracker, &e.calls.over[queueOf(e.coll)]
	if t != nil && *over < e.run {
		*over = t.Finished(e.coll)
	}
	if t != nil && *over >= e.run {
		return true, nil
	}
	if err := d.group.Err(); err != nil && err != colligo.ErrClosed {
		return true, err
	}
	return t == nil, nil // where nobody can tell, what the call returned is all that is known
}

// conclude concludes an operation, whose duration only the device knows. It goes on to count as pending.
func (d *Devices) conclude(e *entry, err error, now time.Time) {
	if errors.Is(err, backend.ErrCaptured) {
		d.log.Recorder().Retire(e.id)
		return
	}
	r := e.record()
	r.Ended, r.Err, r.Took = now, err, -1
	if e.more == nil {
		done := flight.Done{ID: e.id, Seq: e.number, Failed: err != nil}
		if e.kind.P2P() {
			done.Seq = 0
		}
		d.over = append(d.over, done)
		d.log.Count(&r)
		return
	}
	if t, ok := e.more.pending.(backend.Timed); ok && err == nil {
		if took, ok := t.Took(); ok {
			r.Began, r.Took = now.Add(-took), took
		}
	}
	d.log.Conclude(&r)
}
