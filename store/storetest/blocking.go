package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

func testGetBlocks(s suite) {
	var got []byte
	done := async(func() (err error) { got, err = s.Get(s.ctx, "late"); return err })
	s.pending(done)
	s.set("late", "v")
	require.NoError(s.t, s.returns(done))
	require.Equal(s.t, "v", string(got))
}

func testWaitMany(s suite) {
	s.set("b", "")
	done := async(func() error { return s.Wait(s.ctx, "a", "b", "c", "a") })
	s.pending(done)
	_, err := s.Add(s.ctx, "a", 1)
	require.NoError(s.t, err)
	s.pending(done)
	require.NoError(s.t, s.Append(s.ctx, "c", []byte("x")))
	require.NoError(s.t, s.returns(done))
	require.NoError(s.t, s.Wait(s.ctx))
	done = async(func() error { return s.Wait(s.ctx, "cas") })
	s.pending(done)
	_, err = s.CompareSet(s.ctx, "cas", nil, []byte("v"))
	require.NoError(s.t, err)
	require.NoError(s.t, s.returns(done))
}

// testWaitDoesNotBlock makes each waiter wait for the next: one that held up another would stop them all.
func testWaitDoesNotBlock(s suite) {
	keys := []string{"k0", "k1", "k2", "k3", "k4"}
	var done []<-chan error
	for i := range keys[:len(keys)-1] {
		done = append(done, async(func() error {
			if err := s.Wait(s.ctx, keys[i+1]); err != nil {
				return err
			}
			return s.Set(s.ctx, keys[i], nil)
		}))
	}
	s.pending(done[0])
	s.set(keys[len(keys)-1], "")
	for _, d := range done {
		require.NoError(s.t, s.returns(d))
	}
	s.check(true, keys...)
}

func testCheck(s suite) {
	s.check(true)
	s.check(false, "a")
	s.set("a", "")
	s.check(true, "a", "a")
	s.check(false, "a", "b")
}

func testTimeout(s suite) {
	s.SetTimeout(60 * time.Millisecond)
	require.Equal(s.t, 60*time.Millisecond, s.Timeout())
	calls := map[string]func(context.Context) error{
		"wait":      func(ctx context.Context) error { return s.Wait(ctx, "nope") },
		"get":       func(ctx context.Context) error { _, err := s.Get(ctx, "nope"); return err },
		"multi get": func(ctx context.Context) error { _, err := s.MultiGet(ctx, []string{"nope"}); return err },
	}
	if s.queues() {
		calls["pop"] = func(ctx context.Context) error { _, err := s.QueuePop(ctx, "nope", true); return err }
	}
	for name, call := range calls {
		start := time.Now()
		err := call(s.t.Context())
		require.GreaterOrEqual(s.t, time.Since(start), 50*time.Millisecond, name)
		require.ErrorIs(s.t, err, store.ErrTimeout, name)
		require.ErrorIs(s.t, err, context.DeadlineExceeded, name)
		require.ErrorContains(s.t, err, "wait timeout after 60ms, keys: ", name)
		require.ErrorContains(s.t, err, "nope", name)
	}
	s.SetTimeout(0)
	done := async(func() error { return s.Wait(s.t.Context(), "k") })
	time.Sleep(80 * time.Millisecond)
	s.pending(done)
	s.set("k", "")
	require.NoError(s.t, s.returns(done))
}

func testDeadline(s suite) {
	s.SetTimeout(20 * time.Millisecond)
	start := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, 150*time.Millisecond)
	defer cancel()
	err := s.Wait(ctx, "nope")
	require.ErrorIs(s.t, err, store.ErrTimeout)
	require.GreaterOrEqual(s.t, time.Since(start), 140*time.Millisecond, "the context's deadline wins")
	require.ErrorIs(s.t, s.Wait(ctx, "nope"), context.DeadlineExceeded)
}

func testCancel(s suite) {
	reason := errors.New("rank 3 is gone")
	ctx, cancel := context.WithCancelCause(s.ctx)
	done := async(func() error { return s.Wait(ctx, "nope") })
	s.pending(done)
	cancel(reason)
	require.ErrorIs(s.t, s.returns(done), reason)
	require.ErrorIs(s.t, s.Set(ctx, "k", nil), reason)
	_, err := s.Get(ctx, "k")
	require.ErrorIs(s.t, err, reason)
	s.check(false, "k")
}

func testUsableAfterTimeout(s suite) {
	for range 5 {
		ctx, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
		require.ErrorIs(s.t, s.Wait(ctx, "x", "y"), store.ErrTimeout)
		cancel()
		n, err := s.Add(s.ctx, "n", 1)
		require.NoError(s.t, err)
		require.Positive(s.t, n)
	}
	s.get("n", "5")
	s.set("x", "1")
	s.set("y", "2")
	require.NoError(s.t, s.Wait(s.ctx, "x", "y"))
}

func testClose(s suite) {
	require.NoError(s.t, store.Innermost(s.Store).Close())
	require.NoError(s.t, store.Innermost(s.Store).Close())
	require.ErrorIs(s.t, s.Set(s.ctx, "k", nil), store.ErrClosed)
	_, err := s.Get(s.ctx, "k")
	require.ErrorIs(s.t, err, store.ErrClosed)
	_, err = s.Add(s.ctx, "k", 1)
	require.ErrorIs(s.t, err, store.ErrClosed)
	require.ErrorIs(s.t, s.Wait(s.ctx, "k"), store.ErrClosed)
	_, err = s.ListKeys(s.ctx)
	require.ErrorIs(s.t, err, store.ErrClosed)
}

func testCloseWakes(s suite) {
	first := async(func() error { return s.Wait(s.ctx, "a") })
	second := async(func() error { _, err := s.Get(s.ctx, "b"); return err })
	s.pending(first)
	s.pending(second)
	require.NoError(s.t, store.Innermost(s.Store).Close())
	require.ErrorIs(s.t, s.returns(first), store.ErrClosed)
	require.ErrorIs(s.t, s.returns(second), store.ErrClosed)
}
