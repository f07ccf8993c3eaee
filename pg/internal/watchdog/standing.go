package watchdog

import (
	"time"

	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// stalled is how long an operation is the oldest of its queue before the group hears of it, as on the CPU.
const stalled = 2 * time.Second

// lingers is how long a collective is the oldest of its queue before the group hears that it is not over, as on the CPU.
const lingers = 20 * time.Millisecond

// missed is how long an operation is the oldest of its queue before the group hears that a peer has left before it. It is the time that
// the CPU backend gives a peer that has gone to tell why.
const missed = 250 * time.Millisecond

// standing is the oldest operation of a queue.
type standing struct {
	at    int // in the queue, since the beginning
	since time.Time
	tell  time.Time // when the group hears of it next
}

// tellStalled tells the group of operations that stand still: of collectives soon and after 2 seconds, and then ever more rarely. Of
// operations that can never end it tells the group soon. It is called by the goroutine that looks.
func (d *Devices) tellStalled(now time.Time) {
	for q := range d.standing {
		s := &d.standing[q]
		e, at, pending := d.oldest(q)
		switch {
		case !pending || d.group.Err() != nil:
			*s = standing{}
			continue
		case at != s.at || s.since.IsZero():
			*s = standing{at, now, now.Add(lingers)}
			continue
		}
		if now.Sub(s.since) < lingers {
			continue
		}
		if peer, left := d.leftBefore(q, &e); left && now.Sub(s.since) >= missed {
			d.group.Abandoned(e.since(s.since), peer)
		} else if !now.Before(s.tell) {
			d.tell(s, &e, now)
		}
	}
}

// tell tells the group that an operation is not over.
func (d *Devices) tell(s *standing, e *entry, now time.Time) {
	stands := now.Sub(s.since)
	if stands >= stalled {
		s.tell = now.Add(stands)
		d.group.Stalled(e.since(s.since))
		return
	}
	s.tell = s.since.Add(stalled)
	if queueOf(e.coll) == collectives {
		d.group.Lingers(e.since(s.since))
	}
}

// since is an operation like the entry's whose limit counts from then.
func (e *entry) since(then time.Time) *op.Op {
	o := e.op()
	o.Clock(then)
	return o
}

// First returns the number of the oldest collective that was pending when the devices were last looked at.
func (d *Devices) First() (number uint64, pending bool) {
	e, _, pending := d.oldest(collectives)
	return e.number, pending
}

// Oldest returns an operation like the oldest that has not ended: of the sends, the receives or the collectives, by what coll is. It is
// nil if none is pending. The operation is late now, by a limit that it has had.
func (d *Devices) Oldest(coll plan.Coll, limit time.Duration) *op.Op {
	d.look(false)
	e, _, pending := d.oldest(queueOf(coll))
	if !pending {
		return nil
	}
	o := e.op()
	o.Limit = limit
	o.Clock(time.Now().Add(-limit))
	return o
}

// oldest returns the oldest operation of a queue that is pending, and how many there were before it.
func (d *Devices) oldest(q int) (e entry, at int, pending bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := &d.queues[q]
	gone, added := all.ends()
	if gone == added {
		return e, gone, false
	}
	return *all.entry(gone), gone, true
}

// op returns an operation with the arguments by which ranks know one another's calls.
func (e *entry) op() *op.Op {
	o := &op.Op{Coll: e.coll, DType: e.dtype, Reduce: e.reduce, Device: e.device, Root: e.root, Number: e.number}
	if o.P2P() {
		o.Root, o.Tag, o.Peer = 0, e.root, e.peer
	} else {
		o.Seq, o.More().Signed = e.seq(), e.peer
	}
	o.Count = e.bytes / o.Elem()
	o.More().Counts = []int{o.Count} // of all ranks together
	return o
}

// seq returns the place of a collective in the group's order.
func (e *entry) seq() op.Seq { return op.SeqOf(e.number) + op.Seq(e.later) }
