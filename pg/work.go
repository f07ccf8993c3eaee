package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
)

// Work is one pending operation. Its buffers belong to the operation until it is done. c10d: Work.
type Work struct {
	group   *Group
	op      *operation
	done    chan struct{}
	device  backend.Pending // in place of done for an operation on a device
	results []colligo.Tensor
	room    [1]colligo.Tensor // of results, where it is one

	once    sync.Once
	watched chan struct{} // closed when device is done; made by Done
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// finished is the work of a call that is over when it returns.
func (g *Group) finished(r *request, err error) *Work {
	w := g.workOf(r)
	w.op.over, w.op.err, w.done = true, err, closedChannel
	return w
}

// workOf returns a work with an operation of its own, in one piece.
func (g *Group) workOf(r *request) *Work {
	both := &struct {
		work Work
		op   operation
	}{}
	w := &both.work
	w.group, w.op, both.op.request = g, &both.op, *r
	w.keepResults(r)
	return w
}

// keepResults remembers where the results will be.
func (w *Work) keepResults(r *request) {
	if r.err != nil {
		return
	}
	if w.results = r.outputs(&w.room); len(w.results) > 1 {
		w.results = append([]colligo.Tensor(nil), w.results...)
	}
}

func finishedWork(peer int, err error) *Work {
	op := &operation{over: true, err: err}
	op.peer = peer
	return &Work{op: op, done: closedChannel}
}

// results returns the tensors that will hold the results.
func (r *request) results() []colligo.Tensor {
	if r.err != nil {
		return nil
	}
	var room [1]colligo.Tensor
	return append([]colligo.Tensor(nil), r.outputs(&room)...)
}

// Wait returns the operation's error once it is done, or the context's cause if that ends first; the operation then goes
// on. To limit the operation itself give the context to the call that started it. For tensors on a GPU, Wait only makes
// the caller's stream wait for the operation. c10d: wait.
func (w *Work) Wait(ctx context.Context) error {
	if w.device != nil {
		if due := w.op.due; due != nil && w.group.config.Watch.BlockingWait == On {
			return w.group.waitBlocking(ctx, w.device, due)
		}
		return w.device.Wait(ctx)
	}
	return w.Synchronize(ctx)
}

// Synchronize blocks until the operation is done, on a GPU too. c10d: synchronize, on the host.
func (w *Work) Synchronize(ctx context.Context) error {
	if w.device != nil {
		return w.device.Synchronize(ctx)
	}
	select {
	case <-w.done:
		return w.op.err
	default:
	}
	select {
	case <-w.done:
		return w.op.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done is closed when the operation is done. For tensors on a GPU a goroutine waits for it.
func (w *Work) Done() <-chan struct{} {
	if w.device == nil {
		return w.done
	}
	w.once.Do(func() {
		w.watched = make(chan struct{})
		go func() {
			defer close(w.watched)
			w.op.err = w.device.Synchronize(context.Background())
		}()
	})
	return w.watched
}

// IsCompleted reports without blocking whether the operation is over, failed ones included. c10d: is_completed.
func (w *Work) IsCompleted() bool {
	if w.device != nil {
		return w.device.Done()
	}
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// IsSuccess reports without blocking whether the operation is over and has not failed. c10d: is_success.
func (w *Work) IsSuccess() bool { return w.IsCompleted() && w.Err() == nil }

// Err returns nil while the operation is pending, then its error. c10d: exception.
func (w *Work) Err() error {
	if !w.IsCompleted() {
		return nil
	}
	if w.device != nil {
		return w.device.Synchronize(context.Background())
	}
	return w.op.err
}

// Source returns the rank that a done receive came from. It blocks until then. c10d: source_rank.
func (w *Work) Source() int {
	<-w.Done()
	return w.op.peer
}

// Result returns the tensors that hold the operation's results, those of the call; for a broadcast also on the root, for a
// send what was sent. It fails while the operation is pending, and with the operation's error. On a device it waits for
// nothing: what the caller does next on a stream that has waited for the work comes after it. c10d: result.
func (w *Work) Result() ([]colligo.Tensor, error) {
	if w.device == nil && !w.IsCompleted() {
		return nil, fmt.Errorf("%v: %w", w, errPending)
	}
	if err := w.Err(); err != nil {
		return nil, err
	}
	return append([]colligo.Tensor(nil), w.results...), nil
}

var (
	errPending = errors.New("the operation is pending")
	errUntimed = errors.New("the operation was not timed: see SetTiming")
)

// Duration returns how long a done operation was on its way: on the CPU from its turn to its end; on a device what the
// device measured, if Config.Watch.Timing or SetTiming was on when it was called. c10d: _get_duration.
func (w *Work) Duration() (time.Duration, error) {
	if !w.IsCompleted() {
		return 0, fmt.Errorf("%v: %w", w, errPending)
	}
	if t, ok := w.device.(backend.Timed); ok {
		if d, ok := t.Took(); ok {
			return d, nil
		}
	}
	if d := w.op.rec.took(); w.device == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%v: %w", w, errUntimed)
}

// Seq returns the operation's number among the group's collectives, or among its sends and receives, from 1; 0 if it was
// refused. It is that of the flight recorder. c10d: _get_sequence_number.
func (w *Work) Seq() uint64 { return w.op.rec.number() }

// OpType returns what was called. c10d: _get_op_type.
func (w *Work) OpType() OpType {
	if w.op.rec.called.IsZero() { // refused, or a step of another work
		return w.op.opType()
	}
	return w.op.rec.kind
}

// String says what the work is, such as "all_reduce 3 of group 0".
func (w *Work) String() string {
	s := w.op.coll.String()
	if w.OpType() == OpCoalesced {
		s = "coalesced"
	}
	if n := w.Seq(); n > 0 {
		s = fmt.Sprintf("%s %d", s, n)
	}
	if w.group != nil {
		s += " of group " + w.group.name
	}
	return s
}

// Then returns a work that is done when f, called once w is over, has returned. Its error is f's; f gets w, and passes on
// w.Err() where a failure is to travel along. What f starts and waits for may be of the same group. Results, number and
// type are w's. On a GPU f is called when the device is done. c10d: the future's then.
func (w *Work) Then(f func(w *Work) error) *Work {
	was := &w.op.rec
	op := &operation{request: request{coll: w.op.coll, kind: w.OpType() + 1, rec: record{kind: was.kind, counts: was.counts, called: was.called}}}
	next := &Work{group: w.group, op: op, results: w.results, done: make(chan struct{})}
	go func() {
		<-w.Done()
		op.peer = w.op.peer
		op.err = f(w)
		close(next.done)
	}()
	return next
}
