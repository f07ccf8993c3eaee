package pg

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
)

// WorkInfo is what a completion hook hears of an operation. c10d: WorkInfo.
type WorkInfo struct {
	Op       OpType
	Seq      uint64        // among the group's collectives, or among its sends and receives, from 1
	Started  time.Time     // when it was called, where it is not known when it began
	Finished time.Time     // for tensors on a GPU, when the group saw it
	Active   time.Duration // negative if it was not measured; see Group.SetTiming
	Bytes    int           // of the whole tensor
	Err      error         // nil if it succeeded
}

// OnCompletion makes the group call f after each operation, blocking ones too, in the order in which they end, from one
// goroutine of its own. Operations do not wait for f; Close waits until f has heard of all of them, so f must not call
// it, nor WaitPending. What is called before OnCompletion f may not hear of. c10d: _register_on_completion_hook.
func (g *Group) OnCompletion(f func(WorkInfo)) {
	if g != nil && g.rank != colligo.NoRank {
		g.ledger.hooks.register(f)
	}
}

// hooks hand what is over to the functions that want to hear of it.
type hooks struct {
	any atomic.Bool // so that groups without hooks do not lock

	mu     sync.Mutex
	fs     []func(WorkInfo)
	queue  []heard
	more   chan struct{} // has room for one signal
	closed bool
	gone   chan struct{} // closed when the goroutine has ended
}

func (h *hooks) register(f func(WorkInfo)) {
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

// heard is an operation, or with a mark the wish to know when the hooks have come so far.
type heard struct {
	WorkInfo
	mark chan struct{}
}

// put tells the hooks of an operation that is over. It reports whether they will hear of it.
func (h *hooks) put(w heard) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.queue = append(h.queue, w)
	h.signal()
	return true
}

// caughtUp waits until the hooks have heard of all that was over.
func (h *hooks) caughtUp(ctx context.Context) error {
	if !h.any.Load() {
		return nil
	}
	mark := make(chan struct{})
	until := mark
	if !h.put(heard{mark: mark}) {
		until = h.gone
	}
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *hooks) signal() {
	select {
	case h.more <- struct{}{}:
	default:
	}
}

// serve calls the hooks until close.
func (h *hooks) serve() {
	defer close(h.gone)
	for range h.more {
		h.mu.Lock()
		infos, fs, closed := h.queue, h.fs, h.closed
		h.queue = nil
		h.mu.Unlock()
		for _, w := range infos {
			if w.mark != nil {
				close(w.mark)
				continue
			}
			for _, f := range fs {
				f(w.WorkInfo)
			}
		}
		if closed {
			return
		}
	}
}

// close waits until the hooks have heard of everything.
func (h *hooks) close() {
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

// pendingCount counts operations that are not over.
type pendingCount struct {
	n       atomic.Int64
	waiting atomic.Int32
	mu      sync.Mutex
	zero    chan struct{} // closed when n has been 0 since somebody waited
}

func (p *pendingCount) add() { p.n.Add(1) }

func (p *pendingCount) done(n int) {
	if n == 0 || p.n.Add(-int64(n)) > 0 || p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.zero != nil && p.n.Load() == 0 { // else who began to wait meanwhile waits for another
		close(p.zero)
		p.zero = nil
	}
}

// wait returns when no operation was pending at some moment since the call.
func (p *pendingCount) wait(ctx context.Context) error {
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	p.mu.Lock()
	if p.n.Load() == 0 {
		p.mu.Unlock()
		return nil
	}
	if p.zero == nil {
		p.zero = make(chan struct{})
	}
	zero := p.zero
	p.mu.Unlock()
	select {
	case <-zero:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pending returns how many operations of the group have been called and are not over.
func (g *Group) Pending() int {
	if g == nil {
		return 0
	}
	return int(g.ledger.pending.n.Load())
}

// WaitPending returns when no operation is pending, whether they succeeded or not, and the hooks have heard of all. For
// tensors on a GPU it waits until the device is done. c10d: _wait_for_pending_works.
func (g *Group) WaitPending(ctx context.Context) error {
	if g == nil || g.rank == colligo.NoRank {
		return ErrNotMember
	}
	if err := g.ledger.pending.wait(ctx); err != nil {
		return err
	}
	return g.ledger.hooks.caughtUp(ctx)
}
