package watchdog

import (
	"container/heap"
	"sync"
	"time"

	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// pending is an asynchronous operation whose deadline is watched.
type pending struct {
	op *op.Op
	backend.Pending
}

// deadlines finds the asynchronous operations that are late, for which nobody may be waiting. Operations whose deadlines
// follow one another stand in a queue, the others in a heap.
type deadlines struct {
	mu    sync.Mutex
	queue []pending // by deadline; those before head are gone
	head  int
	odd   byDeadline
}

func (d *deadlines) add(p pending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.queue); n > 0 && p.op.Deadline().Before(d.queue[n-1].op.Deadline()) {
		heap.Push(&d.odd, p)
	} else {
		d.queue = append(d.queue, p)
	}
}

func (d *deadlines) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.queue)-d.head+len(d.odd) > 0
}

// late forgets operations that are done, which it tells freed, and returns the first operation that is late, nil if none is.
// After that nothing is watched, for the group fails.
func (d *deadlines) late(now time.Time, freed func(*op.Op)) *op.Op {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.head < len(d.queue) && d.queue[d.head].Done() {
		freed(d.queue[d.head].op)
		d.queue[d.head] = pending{}
		d.head++
	}
	for len(d.odd) > 0 && d.odd[0].Done() {
		freed(heap.Pop(&d.odd).(pending).op)
	}
	if d.head > len(d.queue)/2 {
		n := copy(d.queue, d.queue[d.head:])
		clear(d.queue[n:])
		d.queue, d.head = d.queue[:n], 0
	}
	var late *op.Op
	for _, some := range [2][]pending{d.queue[d.head:], d.odd} {
		if len(some) > 0 && !now.Before(some[0].op.Deadline()) {
			late = some[0].op
		}
	}
	if late != nil {
		d.queue, d.head, d.odd = nil, 0, nil
	}
	return late
}

// byDeadline has the operations whose deadlines are not in the order of their calls, as a heap with the earliest first.
type byDeadline []pending

func (h byDeadline) Len() int           { return len(h) }
func (h byDeadline) Less(i, j int) bool { return h[i].op.Deadline().Before(h[j].op.Deadline()) }
func (h byDeadline) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *byDeadline) Push(x any) { *h = append(*h, x.(pending)) }

// Pop implements heap.Interface.
func (h *byDeadline) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = pending{}
	*h = (*h)[:len(*h)-1]
	return last
}
