package tcpstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

// TestTorch113Bytes holds the requests to what PyTorch 1.13's server reads: no greeting, and SET is 0.
func TestTorch113Bytes(t *testing.T) {
	s := newScript(t)
	c := dialAddr(t, s.ln.Addr().String(), ClientOptions{Dialect: Torch113})
	s.accept()
	ctx := t.Context()
	require.NoError(t, c.Set(ctx, "k", []byte("v")))
	s.expect("00 0200000000000000 2f6b 0100000000000000 76")
	go func() {
		s.expect("03 0200000000000000 2f6e 0200000000000000")
		s.nc.Write(unhex(t, "0500000000000000"))
	}()
	n, err := c.Add(ctx, "n", 2)
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
}

// TestTorch113 calls everything that the dialect has, between client and server of ours.
func TestTorch113(t *testing.T) {
	srv := serve(t, ServerOptions{Dialect: Torch113})
	c := dial(t, srv, ClientOptions{Dialect: Torch113, WorldSize: 1, WaitForWorkers: true})
	other := dial(t, srv, ClientOptions{Dialect: Torch113})
	ctx := t.Context()
	require.NoError(t, c.MultiSet(ctx, []string{"a", "b"}, [][]byte{[]byte("1"), []byte("2")}))
	vals, err := other.MultiGet(ctx, []string{"b", "a"})
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("2"), []byte("1")}, vals)
	got, err := c.CompareSet(ctx, "a", []byte("1"), []byte("3"))
	require.NoError(t, err)
	require.Equal(t, "3", string(got))
	ok, err := c.Check(ctx, "a", "c")
	require.NoError(t, err)
	require.False(t, ok)
	n, err := c.NumKeys(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 3, n) // a, b and the count of workers
	gone, err := c.Delete(ctx, "a")
	require.NoError(t, err)
	require.True(t, gone)
	came := make(chan error, 1)
	go func() { came <- c.Wait(ctx, "late") }()
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, c.Set(ctx, "late", nil)) // beside the wait, which cannot be cancelled
	require.NoError(t, <-came)
}

// TestTorch113Timeout lets waits run out. The client goes on.
func TestTorch113Timeout(t *testing.T) {
	c := dial(t, serve(t, ServerOptions{Dialect: Torch113}), ClientOptions{Dialect: Torch113})
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := c.Get(ctx, "never")
		require.ErrorIs(t, err, store.ErrTimeout)
		cancel()
	}
	require.NoError(t, c.Set(t.Context(), "k", nil))
	_, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
}

// TestTorch113Lacks refuses what the dialect does not have, and harms nothing.
func TestTorch113Lacks(t *testing.T) {
	c := dial(t, serve(t, ServerOptions{Dialect: Torch113}), ClientOptions{Dialect: Torch113})
	ctx := t.Context()
	require.ErrorIs(t, c.Append(ctx, "k", nil), store.ErrNotSupported)
	require.ErrorIs(t, c.QueuePush(ctx, "k", nil), store.ErrNotSupported)
	_, err := c.QueuePop(ctx, "k", false)
	require.ErrorIs(t, err, store.ErrNotSupported)
	_, err = c.QueueLen(ctx, "k")
	require.ErrorIs(t, err, store.ErrNotSupported)
	_, err = c.ListKeys(ctx)
	require.ErrorIs(t, err, store.ErrNotSupported)
	require.NoError(t, c.Set(ctx, "k", nil))
}

// TestDialectsApart lets a client of one dialect meet a server of the other. It ends with an error and hangs nothing.
func TestDialectsApart(t *testing.T) {
	t.Parallel()
	srv := serve(t, ServerOptions{Dialect: Torch113})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	c, err := Dial(ctx, srv.Addr().String(), ClientOptions{})
	if err == nil {
		_, err = c.Add(ctx, "k", 1)
		require.NoError(t, c.Close())
	}
	require.Error(t, err)
}
