package shm

import (
	"runtime"

	"github.com/colligo-go/colligo/transport"
)

// lentLane is the lane that another goroutine can use. Its frames ring at two doorbells: that goroutine's and the rank's, for the rank itself
// takes them where nobody else does.
const lentLane = 1

var (
	_ transport.Laned      = (*mesh)(nil)
	_ transport.LaneWaiter = (*waiter)(nil)
)

// Lane implements transport.Laned. It gives one lane, once.
func (m *mesh) Lane(lane int) transport.LaneWaiter {
	if lane != lentLane || lane >= m.layout.lanes || !m.lent.CompareAndSwap(false, true) {
		return nil
	}
	p := &m.second.patience
	p.company = m.patience.company
	p.share(m.patience.crowded)
	p.naps = p.naps && runtime.GOMAXPROCS(0) > 2 // the rank itself may nap, too
	for _, l := range m.links {
		if l != nil {
			l.in[lane].lent = true
		}
	}
	return &m.second
}
