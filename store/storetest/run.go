package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

// Opener returns a new, empty store and closes it when the test ends.
type Opener func(t *testing.T) store.Store

// suite is one test's store and a context that ends before the test binary's own limit.
type suite struct {
	store.Store
	t   *testing.T
	ctx context.Context
}

// Run puts the stores that open returns through the whole suite.
func Run(t *testing.T, open Opener) {
	for _, c := range []struct {
		name string
		test func(suite)
	}{
		{"SetGet", testSetGet}, {"Binary", testBinary}, {"Ownership", testOwnership}, {"Add", testAdd},
		{"AddNotNumber", testAddNotNumber}, {"AddOverflow", testAddOverflow}, {"CompareSet", testCompareSet},
		{"Delete", testDelete}, {"Append", testAppend}, {"Multi", testMulti}, {"MultiSetPanics", testMultiSetPanics},
		{"Keys", testKeys}, {"Large", testLarge},
		{"GetBlocks", testGetBlocks}, {"WaitMany", testWaitMany}, {"WaitDoesNotBlock", testWaitDoesNotBlock},
		{"Check", testCheck}, {"Timeout", testTimeout}, {"Deadline", testDeadline}, {"Cancel", testCancel},
		{"UsableAfterTimeout", testUsableAfterTimeout}, {"Close", testClose}, {"CloseWakes", testCloseWakes},
		{"Concurrent", testConcurrent}, {"Barrier", testBarrier}, {"ManyWaiters", testManyWaiters},
		{"QueueOrder", testQueueOrder}, {"QueueBlocks", testQueueBlocks}, {"QueueApart", testQueueApart},
		{"QueueHandsOn", testQueueHandsOn}, {"QueueMany", testQueueMany},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c.test(suite{open(t), t, ctx})
		})
	}
}

func (s suite) set(key, val string) { require.NoError(s.t, s.Set(s.ctx, key, []byte(val))) }

func (s suite) get(key, want string) {
	s.t.Helper()
	v, err := s.Get(s.ctx, key)
	require.NoError(s.t, err)
	require.Equal(s.t, want, string(v))
}

func (s suite) check(want bool, keys ...string) {
	s.t.Helper()
	ok, err := s.Check(s.ctx, keys...)
	require.NoError(s.t, err)
	require.Equal(s.t, want, ok, "check %q", keys)
}

// queues reports whether the store has queues, and holds it to ErrNotSupported if not.
func (s suite) queues() bool {
	_, err := s.QueueLen(s.ctx, "q")
	if !errors.Is(err, store.ErrNotSupported) {
		require.NoError(s.t, err)
		return true
	}
	require.ErrorIs(s.t, s.QueuePush(s.ctx, "q", nil), store.ErrNotSupported)
	for _, block := range []bool{false, true} {
		_, err = s.QueuePop(s.ctx, "q", block)
		require.ErrorIs(s.t, err, store.ErrNotSupported)
	}
	return false
}

// returns waits for a call in another goroutine and returns its error.
func (s suite) returns(done <-chan error) error {
	s.t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		require.FailNow(s.t, "the call did not return within a minute")
		return nil
	}
}

// pending fails if the call in another goroutine has returned already.
func (s suite) pending(done <-chan error) {
	s.t.Helper()
	select {
	case err := <-done:
		require.FailNow(s.t, "the call returned early", "error: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
}

// async runs f in a goroutine.
func async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}
