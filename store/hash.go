package store

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Hash is a store in this process's memory. All ranks that meet in it share one *Hash, its timeout included.
type Hash struct {
	table  *Table
	limit  Limit
	once   sync.Once
	closed chan struct{}
}

var _ Store = (*Hash)(nil)

// NewHash returns an empty store with DefaultTimeout.
func NewHash() *Hash {
	h := &Hash{table: NewTable(), closed: make(chan struct{})}
	h.limit.Set(DefaultTimeout)
	return h
}

// ready returns the error of a call that cannot start.
func (h *Hash) ready(ctx context.Context) error {
	select {
	case <-h.closed:
		return fmt.Errorf("store: %w", ErrClosed)
	default:
		return context.Cause(ctx)
	}
}

// await blocks until every key has been present. If taker is set, the caller goes on to pop the queue it waited for.
func (h *Hash) await(b *Bound, keys []string, taker bool) error {
	if err := h.ready(b); err != nil {
		return err
	}
	came := make(chan struct{})
	w := h.table.Watch(keys, func() { close(came) })
	if w == nil {
		return nil
	}
	select {
	case <-came:
		if taker {
			w.Claim()
		} else {
			w.Cancel()
		}
		return nil
	case <-b.Done():
		w.Cancel()
		return fmt.Errorf("store: %w", b.Fail(keys...))
	case <-h.closed:
		w.Cancel()
		return fmt.Errorf("store: %w", ErrClosed)
	}
}

// Set implements Values.
func (h *Hash) Set(ctx context.Context, key string, val []byte) error {
	if err := h.ready(ctx); err != nil {
		return err
	}
	h.table.Set(key, copyOf(val))
	return nil
}

// copyOf never returns nil, so an empty value looks the same from every store.
func copyOf(val []byte) []byte { return append([]byte{}, val...) }

// Get implements Values.
func (h *Hash) Get(ctx context.Context, key string) ([]byte, error) {
	vals, err := h.MultiGet(ctx, []string{key})
	if err != nil {
		return nil, err
	}
	return vals[0], nil
}

// Add implements Values.
func (h *Hash) Add(ctx context.Context, key string, delta int64) (int64, error) {
	if err := h.ready(ctx); err != nil {
		return 0, err
	}
	n, err := h.table.Add(key, delta)
	if err != nil {
		return 0, fmt.Errorf("store: add to %q: %w", key, err)
	}
	return n, nil
}

// CompareSet implements Values.
func (h *Hash) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	if err := h.ready(ctx); err != nil {
		return nil, err
	}
	return copyOf(h.table.CompareSet(key, expected, copyOf(desired))), nil
}

// Delete implements Values.
func (h *Hash) Delete(ctx context.Context, key string) (bool, error) {
	if err := h.ready(ctx); err != nil {
		return false, err
	}
	return h.table.Delete(key), nil
}

// Append implements Values.
func (h *Hash) Append(ctx context.Context, key string, val []byte) error {
	if err := h.ready(ctx); err != nil {
		return err
	}
	h.table.Append(key, val)
	return nil
}

// MultiGet implements Batch.
func (h *Hash) MultiGet(ctx context.Context, keys []string) ([][]byte, error) {
	b := h.limit.Start(ctx)
	defer b.Stop()
	if err := h.await(b, keys, false); err != nil {
		return nil, err
	}
	vals := make([][]byte, len(keys))
	for i, k := range keys {
		v, ok := h.table.Get(k)
		if !ok {
			return nil, fmt.Errorf("store: get %q: only a queue has this key, or it was deleted meanwhile", k)
		}
		vals[i] = copyOf(v)
	}
	return vals, nil
}

// MultiSet implements Batch.
func (h *Hash) MultiSet(ctx context.Context, keys []string, vals [][]byte) error {
	Pairs(keys, vals)
	for i, k := range keys {
		if err := h.Set(ctx, k, vals[i]); err != nil {
			return err
		}
	}
	return nil
}

// Wait implements Waiter.
func (h *Hash) Wait(ctx context.Context, keys ...string) error {
	b := h.limit.Start(ctx)
	defer b.Stop()
	return h.await(b, keys, false)
}

// Check implements Waiter.
func (h *Hash) Check(ctx context.Context, keys ...string) (bool, error) {
	if err := h.ready(ctx); err != nil {
		return false, err
	}
	return h.table.Check(keys), nil
}

// QueuePush implements Queue.
func (h *Hash) QueuePush(ctx context.Context, key string, val []byte) error {
	if err := h.ready(ctx); err != nil {
		return err
	}
	h.table.Push(key, copyOf(val))
	return nil
}

// QueuePop implements Queue.
func (h *Hash) QueuePop(ctx context.Context, key string, block bool) ([]byte, error) {
	b := h.limit.Start(ctx)
	defer b.Stop()
	for {
		if err := h.ready(b); err != nil {
			return nil, err
		}
		val, n := h.table.Pop(key)
		switch {
		case n > 0:
			return val, nil
		case !block:
			return nil, fmt.Errorf("store: pop %q: %w", key, ErrQueueEmpty)
		}
		if err := h.await(b, []string{key}, true); err != nil {
			return nil, err
		}
	}
}

// QueueLen implements Queue.
func (h *Hash) QueueLen(ctx context.Context, key string) (int64, error) {
	if err := h.ready(ctx); err != nil {
		return 0, err
	}
	return int64(h.table.QueueLen(key)), nil
}

// NumKeys implements Lister.
func (h *Hash) NumKeys(ctx context.Context) (int64, error) {
	if err := h.ready(ctx); err != nil {
		return 0, err
	}
	return int64(h.table.Len()), nil
}

// ListKeys implements Lister.
func (h *Hash) ListKeys(ctx context.Context) ([]string, error) {
	if err := h.ready(ctx); err != nil {
		return nil, err
	}
	return h.table.Keys(), nil
}

// SetTimeout implements Session.
func (h *Hash) SetTimeout(d time.Duration) { h.limit.Set(d) }

// Timeout implements Session.
func (h *Hash) Timeout() time.Duration { return h.limit.Get() }

// Close implements Session. The values are dropped with the last reference to h.
func (h *Hash) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}
