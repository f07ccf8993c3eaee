package store_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/storetest"
)

// five is the least that a store can be.
type five struct {
	mu   sync.Mutex
	keys map[string]string
}

var _ store.Core = (*five)(nil)

func newFive() *five { return &five{keys: map[string]string{}} }

func (f *five) Load(_ context.Context, key string) ([]byte, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	val, there := f.keys[key]
	return []byte(val), there, nil
}

func (f *five) Store(_ context.Context, key string, val []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[key] = string(val)
	return nil
}

func (f *five) CompareAndSwap(_ context.Context, key string, old, val []byte) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cur, there := f.keys[key]
	if there != (old != nil) || cur != string(old) {
		return false, nil
	}
	f.keys[key] = string(val)
	return true, nil
}

func (f *five) Delete(_ context.Context, key string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, there := f.keys[key]
	delete(f.keys, key)
	return there, nil
}

func (f *five) Keys(context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.keys)), nil
}

func openDerived(core func() store.Core) storetest.Opener {
	return func(t *testing.T) store.Store {
		d := store.NewDerived(core())
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
}

// TestDerived puts five methods through the whole suite.
func TestDerived(t *testing.T) {
	t.Parallel()
	storetest.Run(t, openDerived(func() store.Core { return newFive() }))
}

// more is a store with all that a Core can offer beyond its five methods.
type more struct {
	*five
	watches []chan struct{}
	closes  int
	adds    int
	waits   int
}

func (m *more) Add(ctx context.Context, key string, delta int64) (int64, error) {
	m.mu.Lock()
	cur, there := m.keys[key]
	sum, err := store.NextCount([]byte(cur), there, delta)
	if m.adds++; err == nil {
		m.keys[key] = string(store.CountText(sum))
	}
	m.mu.Unlock()
	m.tell()
	return sum, err
}

func (m *more) Store(ctx context.Context, key string, val []byte) error {
	defer m.tell()
	return m.five.Store(ctx, key, val)
}

func (m *more) CompareAndSwap(ctx context.Context, key string, old, val []byte) (bool, error) {
	defer m.tell()
	return m.five.CompareAndSwap(ctx, key, old, val)
}

func (m *more) Watch(context.Context, []string) (<-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := make(chan struct{}, 1)
	m.waits++
	m.watches = append(m.watches, changed)
	return changed, nil
}

// tell tells all watches of all changes.
func (m *more) tell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, changed := range m.watches {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

func (m *more) Close() error {
	m.closes++
	return nil
}

// TestDerivedOfMore puts a store through the suite that adds, tells of changes and closes by itself.
func TestDerivedOfMore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, openDerived(func() store.Core { return &more{five: newFive()} }))
	m := &more{five: newFive()}
	d := store.NewDerived(m)
	sum, err := d.Add(t.Context(), "n", 2)
	require.NoError(t, err)
	require.EqualValues(t, 2, sum)
	done := make(chan error, 1)
	go func() { done <- d.Wait(t.Context(), "late") }()
	require.Eventually(t, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.waits == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, d.Set(t.Context(), "late", nil))
	require.NoError(t, <-done)
	require.NoError(t, errors.Join(d.Close(), d.Close()))
	require.Equal(t, 1, m.adds)
	require.Equal(t, 1, m.closes)
}

// ended is a store whose watches end at once: keys are then looked at every so often.
type ended struct{ *five }

func (ended) Watch(context.Context, []string) (<-chan struct{}, error) {
	changed := make(chan struct{})
	close(changed)
	return changed, nil
}

func TestDerivedOfEndedWatches(t *testing.T) {
	t.Parallel()
	storetest.Run(t, openDerived(func() store.Core { return ended{newFive()} }))
}

// broken is a store that does not answer.
type broken struct{ *five }

var errBroken = errors.New("connection refused")

func (broken) Load(context.Context, string) ([]byte, bool, error) { return nil, false, errBroken }
func (broken) Keys(context.Context) ([]string, error)             { return nil, errBroken }

// TestDerivedSaysWhat names call and key in front of a Core's own error.
func TestDerivedSaysWhat(t *testing.T) {
	d := store.NewDerived(broken{newFive()})
	defer d.Close()
	_, err := d.Get(t.Context(), "k")
	require.EqualError(t, err, `store: get "k": connection refused`)
	require.ErrorIs(t, err, errBroken)
	_, err = d.ListKeys(t.Context())
	require.EqualError(t, err, "store: list_keys: connection refused")
	require.EqualError(t, d.QueuePush(t.Context(), "q", nil), `store: queue_push "q": connection refused`)
}

// TestDerivedForeignQueue refuses a queue that nothing here has written.
func TestDerivedForeignQueue(t *testing.T) {
	f := newFive()
	d := store.NewDerived(f)
	defer d.Close()
	for _, bytes := range []string{"\x05ab", "\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		require.NoError(t, f.Store(t.Context(), "queue/q", []byte(bytes)))
		_, err := d.QueuePop(t.Context(), "q", false)
		require.ErrorContains(t, err, "are not those of a queue")
		_, err = d.QueueLen(t.Context(), "q")
		require.ErrorContains(t, err, "are not those of a queue")
	}
}

// TestDerivedShared has two stores on one Core wait for each other's keys, as two processes do.
func TestDerivedShared(t *testing.T) {
	f := newFive()
	a, b := store.NewDerived(f), store.NewDerived(f)
	done := make(chan error, 1)
	go func() { done <- a.Wait(t.Context(), "from b") }()
	require.NoError(t, b.Set(t.Context(), "from b", []byte("1")))
	require.NoError(t, <-done)
	require.NoError(t, a.Close())
	val, err := b.Get(t.Context(), "from b")
	require.NoError(t, err)
	require.Equal(t, "1", string(val))
	require.NoError(t, b.Close())
}
