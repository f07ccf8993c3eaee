package oplog

import (
	"context"
	"sync"
	"sync/atomic"
)

// Pending counts the operations that have been called and have not ended.
type Pending struct {
	n       atomic.Int64
	waiting atomic.Int32
	mu      sync.Mutex
	zero    chan struct{} // closed when n has been 0 since somebody waited
}

// Add counts an operation that is called.
func (p *Pending) Add() { p.n.Add(1) }

// Count returns how many operations are pending.
func (p *Pending) Count() int { return int(p.n.Load()) }

// Done takes off n operations that have ended.
func (p *Pending) Done(n int) {
	if n == 0 || p.n.Add(-int64(n)) > 0 || p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.zero != nil && p.n.Load() == 0 { // not 0: a new operation was added, and its end wakes those that wait
		close(p.zero)
		p.zero = nil
	}
}

// Wait returns when no operation was pending at some moment since the call.
func (p *Pending) Wait(ctx context.Context) error {
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
