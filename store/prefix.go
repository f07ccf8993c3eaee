package store

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Prefix is a view of another store in which every key starts with a prefix and a slash, as in PyTorch's PrefixStore.
// Nested views read from the outside in: Prefix("a") of Prefix("b") of a store writes "b/a/key" there.
type Prefix struct {
	prefix string
	inner  Store
}

var _ Store = (*Prefix)(nil)

// NewPrefix returns a view of inner. inner stays the caller's to close.
func NewPrefix(prefix string, inner Store) *Prefix { return &Prefix{prefix + "/", inner} }

// Inner returns the store that p is a view of, which may be a view too.
func (p *Prefix) Inner() Store { return p.inner }

// Innermost unwraps views until it reaches a store that is none.
func Innermost(s Store) Store {
	for {
		p, ok := s.(*Prefix)
		if !ok {
			return s
		}
		s = p.inner
	}
}

func (p *Prefix) all(keys []string) []string {
	full := make([]string, len(keys))
	for i, k := range keys {
		full[i] = p.prefix + k
	}
	return full
}

// Set implements Values.
func (p *Prefix) Set(ctx context.Context, key string, val []byte) error {
	return p.inner.Set(ctx, p.prefix+key, val)
}

// Get implements Values.
func (p *Prefix) Get(ctx context.Context, key string) ([]byte, error) {
	return p.inner.Get(ctx, p.prefix+key)
}

// Add implements Values.
func (p *Prefix) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return p.inner.Add(ctx, p.prefix+key, delta)
}

// CompareSet implements Values.
func (p *Prefix) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	return p.inner.CompareSet(ctx, p.prefix+key, expected, desired)
}

// Delete implements Values.
func (p *Prefix) Delete(ctx context.Context, key string) (bool, error) {
	return p.inner.Delete(ctx, p.prefix+key)
}

// Append implements Values.
func (p *Prefix) Append(ctx context.Context, key string, val []byte) error {
	return p.inner.Append(ctx, p.prefix+key, val)
}

// MultiGet implements Batch.
func (p *Prefix) MultiGet(ctx context.Context, keys []string) ([][]byte, error) {
	return p.inner.MultiGet(ctx, p.all(keys))
}

// MultiSet implements Batch.
func (p *Prefix) MultiSet(ctx context.Context, keys []string, vals [][]byte) error {
	return p.inner.MultiSet(ctx, p.all(keys), vals)
}

// Wait implements Waiter.
func (p *Prefix) Wait(ctx context.Context, keys ...string) error {
	return p.inner.Wait(ctx, p.all(keys)...)
}

// Check implements Waiter.
func (p *Prefix) Check(ctx context.Context, keys ...string) (bool, error) {
	return p.inner.Check(ctx, p.all(keys)...)
}

// QueuePush implements Queue.
func (p *Prefix) QueuePush(ctx context.Context, key string, val []byte) error {
	return p.inner.QueuePush(ctx, p.prefix+key, val)
}

// QueuePop implements Queue.
func (p *Prefix) QueuePop(ctx context.Context, key string, block bool) ([]byte, error) {
	return p.inner.QueuePop(ctx, p.prefix+key, block)
}

// QueueLen implements Queue.
func (p *Prefix) QueueLen(ctx context.Context, key string) (int64, error) {
	return p.inner.QueueLen(ctx, p.prefix+key)
}

// NumKeys implements Lister. It counts the whole inner store, as PyTorch's does.
func (p *Prefix) NumKeys(ctx context.Context) (int64, error) { return p.inner.NumKeys(ctx) }

// ListKeys implements Lister. It names the keys below the prefix, without it.
func (p *Prefix) ListKeys(ctx context.Context) ([]string, error) {
	keys, err := p.inner.ListKeys(ctx)
	keys = slices.DeleteFunc(keys, func(k string) bool { return !strings.HasPrefix(k, p.prefix) })
	for i, k := range keys {
		keys[i] = k[len(p.prefix):]
	}
	return keys, err
}

// SetTimeout implements Session. It sets the inner store's timeout, so it holds for all views of it.
func (p *Prefix) SetTimeout(d time.Duration) { p.inner.SetTimeout(d) }

// Timeout implements Session.
func (p *Prefix) Timeout() time.Duration { return p.inner.Timeout() }

// Close implements Session. A view has nothing of its own to close: Close does nothing, and the view goes on working
// until the inner store is closed.
func (p *Prefix) Close() error { return nil }
