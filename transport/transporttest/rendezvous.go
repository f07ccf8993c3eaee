package transporttest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
)

// Rendezvous is a transport.Rendezvous in memory. It may be used from any goroutine.
type Rendezvous struct {
	mu   sync.Mutex
	keys map[string]*entry
}

type entry struct {
	set   chan struct{} // closed when value is there
	value []byte
}

// NewRendezvous returns one without keys.
func NewRendezvous() *Rendezvous { return &Rendezvous{keys: make(map[string]*entry)} }

func (r *Rendezvous) entry(key string) *entry {
	e := r.keys[key]
	if e == nil {
		e = &entry{set: make(chan struct{})}
		r.keys[key] = e
	}
	return e
}

// Set stores a copy of value under key; a second Set replaces the first.
func (r *Rendezvous) Set(_ context.Context, key string, value []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(key)
	if e.value == nil {
		close(e.set)
	}
	e.value = append([]byte{}, value...)
	return nil
}

// Get returns a copy of the value under key, and waits for it as long as ctx allows.
func (r *Rendezvous) Get(ctx context.Context, key string) ([]byte, error) {
	r.mu.Lock()
	e := r.entry(key)
	r.mu.Unlock()
	select {
	case <-e.set:
	case <-ctx.Done():
		return nil, fmt.Errorf("rendezvous: key %q: %w", key, ctx.Err())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(e.value), nil
}
