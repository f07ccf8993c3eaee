package op

import "github.com/colligo-go/colligo/plan"

// Half is a half of a monitored barrier, where that is made of operations.
type Half int32

// The halves. Other operations are of neither.
const (
	NotMonitored Half = iota
	Report            // every rank sends to rank 0
	Answer            // rank 0 sends to every rank
)

// MonitoredBarrier makes o a half of a monitored barrier.
func (o *Op) MonitoredBarrier(h Half) *Op {
	o.Coll, o.Tag = plan.Barrier, int32(h)
	return o
}

// Monitored returns which half of a monitored barrier the operation is.
func (o *Op) Monitored() Half {
	if o.Coll != plan.Barrier {
		return NotMonitored
	}
	return Half(o.Tag)
}
