package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// Work is one pending operation, or the operations of one block. Its tensors belong to it until it is done. Its methods may
// be called from any goroutine, any number of times. c10d: Work.
type Work struct {
	group   *Group
	op      *op.Op
	pending backend.Pending
	results []colligo.Tensor
	room    [1]colligo.Tensor // of results, where it is one

	once    sync.Once
	watched chan struct{} // closed when an operation on a device is done; made by Done
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// newWork returns the work of an operation that is about to be carried out. It knows where the results will be, which the
// operation forgets when it is over.
func (g *Group) newWork(o *op.Op) *Work {
	w := &Work{group: g, op: o}
	if o.Wrong() == nil {
		w.results = append(w.room[:0], o.Outputs()...)
	}
	return w
}

// settle takes what do has returned: what tells that the operation is over, or an error with which it is over now.
func (w *Work) settle(p backend.Pending, err error) {
	w.pending = p
	if err != nil {
		w.op.Over, w.op.Err, w.op.Done = true, err, closedChannel
		w.pending = host.Pending{Op: w.op}
	}
}

// workOfBlock returns the work of operations that are pending together.
func workOfBlock(g *Group, ops []*op.Op, p backend.Pending) *Work {
	w := &Work{group: g, pending: p}
	switch p := p.(type) {
	case none:
		w.op = finishedOp(nil)
		w.op.As(op.Coalesced)
		w.pending = host.Pending{Op: w.op}
	case host.Pending:
		w.op = p.Op
	default:
		w.op = ops[0].Recorded()
		if b := w.op.Rare().Block; b != nil {
			w.op = b.Stands()
		}
	}
	return w
}

// finished is the work of a call that is over when it returns.
func finished(err error) *Work {
	o := finishedOp(err)
	return &Work{op: o, pending: host.Pending{Op: o}}
}

func finishedOp(err error) *op.Op {
	return &op.Op{Peer: colligo.NoRank, Over: true, Err: err, Done: closedChannel}
}

// Wait returns the operation's error once it is done. If the context ends first, it returns the context's cause and the
// operation goes on. To limit the operation itself, give the context to the call that started it.
//
// For tensors on a GPU, Wait only makes the caller's stream wait for the operation, and returns. With BlockingWait of
// Config.Watchdog it blocks until the device is done, and no longer than the operation's limit. The context's deadline is then
// the operation's, on every device: at it the group ends with colligo.ErrTimeout. c10d: wait with a timeout, and
// TORCH_NCCL_BLOCKING_WAIT.
func (w *Work) Wait(ctx context.Context) error {
	if w.group != nil && w.group.config.Watchdog.BlockingWait == On && (w.op.Done != nil || !w.op.Clocked().IsZero()) {
		return w.waitBlocking(ctx)
	}
	return w.pending.Wait(ctx)
}

// Synchronize blocks until the operation is done, on a GPU too, and returns its error. If the context ends first, it returns
// the context's cause and the operation goes on. c10d: synchronize, on the host.
func (w *Work) Synchronize(ctx context.Context) error { return w.pending.Synchronize(ctx) }

// Done returns a channel that is closed when the operation is done. For tensors on a GPU the first call starts a goroutine
// that waits for the device. c10d: the future of get_future.
func (w *Work) Done() <-chan struct{} {
	if w.op.Done != nil {
		return w.op.Done
	}
	w.once.Do(func() {
		w.watched = make(chan struct{})
		go func() {
			defer close(w.watched)
			_ = w.pending.Synchronize(context.Background()) // Err returns it
		}()
	})
	return w.watched
}

// IsCompleted reports without blocking whether the operation is over, with or without an error, on a GPU too. c10d:
// is_completed.
func (w *Work) IsCompleted() bool { return w.pending.Done() }

// IsStarted reports without blocking whether the operation's turn has come, or it is over. On a device that is known before the
// end only if Timing of Config.Recorder or SetTiming was on at the call. c10d: isStarted.
func (w *Work) IsStarted() bool {
	if w.IsCompleted() {
		return true
	}
	if t, ok := w.pending.(backend.Timed); ok {
		return t.Begun()
	}
	return w.op.Done != nil && w.op.HasStarted()
}

// Abort ends the group of a pending operation on all ranks, for no other rank can end the operation alone. Where the work is
// over it does nothing. c10d: abort.
func (w *Work) Abort() {
	if w.group != nil && !w.IsCompleted() {
		w.group.Abort(fmt.Errorf("%v was aborted", w))
	}
}

// IsSuccess reports without blocking whether the operation is over and has not failed. c10d: is_success.
func (w *Work) IsSuccess() bool { return w.IsCompleted() && w.Err() == nil }

// Err returns nil while the operation is pending, then its error. It does not block. c10d: exception.
func (w *Work) Err() error {
	if !w.IsCompleted() {
		return nil
	}
	return w.pending.Synchronize(context.Background())
}

// Source returns the rank that a receive came from. It blocks until the work is done, and does not tell errors. c10d:
// source_rank.
func (w *Work) Source() int {
	<-w.Done()
	return int(w.op.Peer)
}

// Result returns the tensors of the call that hold the operation's results, also on the root of a broadcast. Of a send it
// returns the tensor that was sent. It fails while the operation is pending, and with the operation's error.
//
// On a device it waits for nothing. A stream that has waited for the work sees the results. c10d: result.
func (w *Work) Result() ([]colligo.Tensor, error) {
	if w.op.Done != nil && !w.IsCompleted() {
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

// Duration returns how long a done operation was on its way. On the CPU it counts from the operation's turn to its end. On a
// device it is what the device measured. It fails while the operation is pending, and on a device if neither Timing of
// Config.Recorder nor SetTiming was on at the call. c10d: _get_duration.
func (w *Work) Duration() (time.Duration, error) {
	if !w.IsCompleted() {
		return 0, fmt.Errorf("%v: %w", w, errPending)
	}
	if t, ok := w.pending.(backend.Timed); ok {
		if d, ok := t.Took(); ok {
			return d, nil
		}
	}
	if d := w.op.Took(); w.op.Done != nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%v: %w", w, errUntimed)
}

// Seq returns the operation's number among the group's collectives, or among its sends and receives, from 1. It is that of
// the flight recorder; 0 if the call was refused. c10d: _get_sequence_number.
func (w *Work) Seq() uint64 { return w.op.Number }

// OpType returns which operation was called. c10d: _get_op_type.
func (w *Work) OpType() OpType { return OpType(w.op.Type()) }

// String says what the work is, such as "all_reduce 3 of group 0".
func (w *Work) String() string {
	s := w.op.Coll.String()
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

// Then calls f on a goroutine of its own once w is over, and returns a work that is done when f has returned. The new work's
// error is f's. F gets w, and returns w.Err() where a failure is to travel along. Operations that f starts and waits for may
// be of the same group.
//
// Results, number and type are those of w. On a GPU f is called when the device is done. c10d: the future's then.
func (w *Work) Then(f func(w *Work) error) *Work {
	o := &op.Op{Coll: w.op.Coll, Number: w.op.Number, Called: w.op.Called, Done: make(chan struct{})}
	o.As(w.op.Type())
	next := &Work{group: w.group, op: o, pending: host.Pending{Op: o}, results: w.results}
	go func() {
		<-w.Done()
		o.Peer = w.op.Peer
		o.Err = f(w)
		close(o.Done)
	}()
	return next
}
