package watchdog

import (
	"time"

	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// stalled is how long an operation is the oldest of its queue before the group hears of it, as on the CPU.
const stalled = 2 * time.Second

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
		case !now.Before(s.tell):
			s.tell = now.Add(now.Sub(s.since))
			o.Clock(s.since)
			d.group.Stalled(o)
		}
	}
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
