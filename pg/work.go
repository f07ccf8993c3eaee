package pg

import (
	"context"
	"sync"
)

// Work is one pending operation. Its buffers belong to the operation until it is done.
type Work struct {
	op     *operation
	done   chan struct{}
	device Pending // in place of done for an operation on a device

	once    sync.Once
	watched chan struct{} // closed when device is done; made by Done
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func finishedWork(peer int, err error) *Work {
	op := &operation{over: true, err: err}
	op.peer = peer
	return &Work{op: op, done: closedChannel}
}

// Wait returns the operation's error once it is done, or the context's cause if that ends first; the operation then goes
// on. To limit the operation itself give the context to the call that started it. For tensors on a GPU, Wait only makes
// the caller's stream wait for the operation.
func (w *Work) Wait(ctx context.Context) error {
	if w.device != nil {
		return w.device.Wait(ctx)
	}
	return w.Synchronize(ctx)
}

// Synchronize blocks until the operation is done, on a GPU too.
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

// Err returns nil while the operation is pending, then its error.
func (w *Work) Err() error {
	if w.device != nil {
		if !w.device.Done() {
			return nil
		}
		return w.device.Synchronize(context.Background())
	}
	select {
	case <-w.done:
		return w.op.err
	default:
		return nil
	}
}

// Source returns the rank that a done receive came from.
func (w *Work) Source() int {
	<-w.Done()
	return w.op.peer
}
