package pg

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
)

// overdue is the watchdog of asynchronous operations on devices, which nobody may be waiting for. Those whose deadlines
// follow one another stand in a queue, the others in a heap. So a look costs what has ended since the last, and not what
// is pending. Blocking calls have no work; their backend watches its device.
type overdue struct {
	mu      sync.Mutex
	queue   []*deviceWork // by deadline; those before head are gone
	head    int
	odd     byDeadline
	looking bool          // the goroutine runs
	stop    chan struct{} // closed by end
	ended   bool
}

// deviceWork is one operation on a device.
type deviceWork struct {
	op      operation // what was called, for the error
	pending backend.Pending
}

// watchDevice begins to watch an operation. The caller holds g.order.
func (g *Group) watchDevice(ctx context.Context, r *request, seq uint64, p backend.Pending, called time.Time) {
	w := &deviceWork{pending: p}
	w.op = operation{request: *r, seq: seq, began: called, lease: g.lease()}
	w.op.release()
	w.op.deadline = called.Add(w.op.lease.limit)
	if ctx != nil {
		if d, ok := ctx.Deadline(); ok {
			w.op.deadline = d
		}
	}
	if g.config.Watch.OnError == NoHandling {
		g.limits.ended(w.op.lease) // nobody sees when it is done
	} else if g.overdue.add(w) {
		g.aftermath.Go(g.lookAfterDevices)
	}
	r.due = &w.op
}

// errLate ends the wait for an operation on a device.
var errLate = fmt.Errorf("deadline of the operation: %w", colligo.ErrTimeout)

// waitBlocking holds the caller until an operation on a device is done, and no longer than the operation may take.
func (g *Group) waitBlocking(ctx context.Context, p backend.Pending, due *operation) error {
	limit, cancel := context.WithDeadlineCause(ctx, due.deadline, errLate)
	defer cancel()
	err := p.Synchronize(limit)
	if err == nil || !errors.Is(context.Cause(limit), errLate) || g.Err() != nil {
		return err
	}
	late := &operation{request: due.request, seq: due.seq, began: due.began, deadline: due.deadline}
	g.timedOut(late)
	return cmp.Or(late.late, g.Err())
}

// add reports whether the goroutine has to be started.
func (o *overdue) add(w *deviceWork) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return false
	}
	if n := len(o.queue); n > 0 && w.op.deadline.Before(o.queue[n-1].op.deadline) {
		heap.Push(&o.odd, w)
	} else {
		o.queue = append(o.queue, w)
	}
	if o.stop == nil {
		o.stop = make(chan struct{})
	}
	start := !o.looking
	o.looking = true
	return start
}

// lookAfterDevices is the watchdog's goroutine, which lives while there is something to watch.
func (g *Group) lookAfterDevices() {
	o := &g.overdue
	tick := time.NewTicker(min(max(g.Timeout()/16, 5*time.Millisecond), time.Second))
	defer tick.Stop()
	for {
		late, more := o.look(time.Now(), &g.limits)
		if late != nil && g.Err() == nil {
			g.timedOut(&late.op)
		}
		if !more {
			return
		}
		select {
		case <-o.stop:
		case <-tick.C:
		}
	}
}

// look forgets what is done and returns the first that is late, if any is, and whether there is more to watch. After the
// first that is late there is not: the group has failed.
func (o *overdue) look(now time.Time, l *limits) (late *deviceWork, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.head < len(o.queue) && o.queue[o.head].pending.Done() {
		l.ended(o.queue[o.head].op.lease)
		o.queue[o.head] = nil
		o.head++
	}
	for len(o.odd) > 0 && o.odd[0].pending.Done() {
		l.ended(heap.Pop(&o.odd).(*deviceWork).op.lease)
	}
	if o.head > len(o.queue)/2 {
		n := copy(o.queue, o.queue[o.head:])
		clear(o.queue[n:])
		o.queue, o.head = o.queue[:n], 0
	}
	for _, all := range [2][]*deviceWork{o.queue[o.head:], o.odd} {
		if len(all) > 0 && !now.Before(all[0].op.deadline) {
			late = all[0]
		}
	}
	o.looking = late == nil && !o.ended && len(o.queue)-o.head+len(o.odd) > 0
	return late, o.looking
}

// end stops the watchdog for good.
func (o *overdue) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stop != nil && !o.ended {
		close(o.stop)
	}
	o.ended = true
}

// byDeadline is a heap.
type byDeadline []*deviceWork

func (h byDeadline) Len() int           { return len(h) }
func (h byDeadline) Less(i, j int) bool { return h[i].op.deadline.Before(h[j].op.deadline) }
func (h byDeadline) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *byDeadline) Push(x any) { *h = append(*h, x.(*deviceWork)) }

// Pop implements heap.Interface.
func (h *byDeadline) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}
