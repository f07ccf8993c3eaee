package oplog

import (
	"context"
	"sync"
	"sync/atomic"
)

// Hooks tell functions of every operation that has ended, from one goroutine of their own. Each call gets one record of type
// I. The zero value has no functions. c10d: the completion hook of a process group.
type Hooks[I any] struct {
	any atomic.Bool // so that groups without functions take no lock

	mu     sync.Mutex
	fs     []func(I)
	queue  []event[I]
	more   chan struct{} // has room for one signal
	closed bool
	gone   chan struct{} // closed when the goroutine has ended
}

// event is an operation that has ended. With a mark it is none: the mark is closed when all events before it have been told.
type event[I any] struct {
	info I
	mark chan struct{}
}

// Any reports whether a function has been registered.
func (h *Hooks[I]) Any() bool { return h.any.Load() }

// Register adds a function, which is told of what is put from then on. After Close it does nothing.
func (h *Hooks[I]) Register(f func(I)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.fs = append(h.fs[:len(h.fs):len(h.fs)], f)
	if len(h.fs) == 1 {
		h.more, h.gone = make(chan struct{}, 1), make(chan struct{})
		h.any.Store(true)
		go h.serve()
	}
}

// Put queues an operation that has ended. The caller has seen that Any is true. After Close it does nothing.
func (h *Hooks[I]) Put(info I) { h.put(event[I]{info: info}) }

// put reports whether the event will be told.
func (h *Hooks[I]) put(e event[I]) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.queue = append(h.queue, e)
	h.signal()
	return true
}

// CaughtUp waits until the functions have returned for all that was put before the call.
func (h *Hooks[I]) CaughtUp(ctx context.Context) error {
	if !h.any.Load() {
		return nil
	}
	mark := make(chan struct{})
	until := mark
	if !h.put(event[I]{mark: mark}) {
		until = h.gone
	}
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *Hooks[I]) signal() {
	select {
	case h.more <- struct{}{}:
	default:
	}
}

// serve calls the functions until Close.
func (h *Hooks[I]) serve() {
	defer close(h.gone)
	for range h.more {
		h.mu.Lock()
		events, fs, closed := h.queue, h.fs, h.closed
		h.queue = nil
		h.mu.Unlock()
		for _, e := range events {
			if e.mark != nil {
				close(e.mark)
				continue
			}
			for _, f := range fs {
				f(e.info)
			}
		}
		if closed {
			return
		}
	}
}

// Close waits until the functions have been told of everything, and ends their goroutine.
func (h *Hooks[I]) Close() {
	h.mu.Lock()
	h.closed = true
	any := h.fs != nil
	if any {
		h.signal()
	}
	h.mu.Unlock()
	if any {
		<-h.gone
	}
}
