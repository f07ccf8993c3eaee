package tcp

import (
	"sync"
	"time"

	"github.com/colligo-go/colligo/transport/internal/stream"
)

// laneLock is a lock of one lane of all links. It is alone in its cache line, for goroutines on two cores may use two lanes.
type laneLock struct {
	sync.Mutex
	_ [56]byte
}

// laneWaiter waits for one lane of all links. It asks the system about the lane's sockets alone, which the mesh's waiter watches, too.
type laneWaiter struct {
	m       *mesh
	w       stream.Waiter
	spin    stream.Spin
	waiting sync.Mutex // held by Wait, so that close can see it leave
}

// Wait implements transport.LaneWaiter.
func (w *laneWaiter) Wait(idle int, until time.Time) {
	w.waiting.Lock()
	defer w.waiting.Unlock()
	if !w.m.closed.Load() {
		w.spin.Wait(w.w, idle, until)
	}
}

// Wake implements transport.LaneWaiter.
func (w *laneWaiter) Wake() { w.w.Wake() }

// close is called when the mesh is closed and has woken the waiter.
func (w *laneWaiter) close() {
	w.waiting.Lock()
	defer w.waiting.Unlock()
	w.w.Close()
}
