package watchdog

import (
	"time"

	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// stalled is how long an operation is the oldest of its queue before the group hears of it, as on the CPU.
const stalled = 2 * time.Second

// missed is how long an operation is the oldest of its queue before the group hears of it where a rank has left before it. It is the
// time that the CPU backend gives a peer that has gone to tell why.
const missed = 250 * time.Millisecond

// standing is the oldest operation of a queue.
type standing struct {
	number uint64
	since  time.Time
	tell   time.Time // when the group hears of it next
}

// tellStalled tells the group of operations that stand still: after 2 seconds, and then ever more rarely. It is called by the goroutine
// that looks.
func (d *Devices) tellStalled(now time.Time) {
	for q, coll := range [...]plan.Coll{plan.AllReduce, plan.Send, plan.Recv} { // by queueOf
		s, o := &d.standing[q], d.oldest(coll)
		switch {
		case o == nil || d.group.Err() != nil:
			*s = standing{}
		case o.Number != s.number || s.since.IsZero():
			*s = standing{o.Number, now, now.Add(stalled)}
		case !now.Before(s.tell), q == 0 && d.leftBefore(o.Number) && now.Sub(s.since) >= missed:
			s.tell = now.Add(now.Sub(s.since))
			o.Clock(s.since)
			d.group.Stalled(o)
		}
	}
}

// Leaves hears that a peer has left after a collective. A later one of this rank's can never end, and the group hears of it soon.
func (d *Devices) Leaves(after uint64) {
	for {
		old := d.left.Load()
		if old != 0 && old <= after+1 || d.left.CompareAndSwap(old, after+1) {
			return
		}
	}
}

// leftBefore reports whether a peer has left before a collective.
func (d *Devices) leftBefore(number uint64) bool {
	first := d.left.Load()
	return first != 0 && first <= number
}

// First returns the number of the oldest collective that was pending when the devices were last looked at.
func (d *Devices) First() (number uint64, pending bool) {
	if o := d.oldest(plan.AllReduce); o != nil {
		return o.Number, true
	}
	return 0, false
}

// Oldest returns an operation like the oldest that has not ended: of the sends, the receives or the collectives, by what coll is. It is
// nil if none is pending. The operation is late now, by a limit that it has had.
func (d *Devices) Oldest(coll plan.Coll, limit time.Duration) *op.Op {
	d.look(false)
	o := d.oldest(coll)
	if o != nil {
		o.Limit = limit
		o.Clock(time.Now().Add(-limit))
	}
	return o
}

func (d *Devices) oldest(coll plan.Coll) *op.Op {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := &d.queues[queueOf(coll)]
	if all.head == len(all.entries) {
		return nil
	}
	return all.entries[all.head].op()
}

// op returns an operation with the arguments by which ranks know one another's calls.
func (e *entry) op() *op.Op {
	o := &op.Op{Coll: e.coll, DType: e.dtype, Reduce: e.reduce, Device: e.device, Root: e.root, Number: e.number}
	if o.P2P() {
		o.Root, o.Tag, o.Peer = 0, e.root, e.peer
	} else {
		o.Seq = op.SeqOf(e.number)
	}
	o.Count = e.bytes / o.Elem()
	o.More().Counts = []int{o.Count} // of all ranks together
	return o
}
