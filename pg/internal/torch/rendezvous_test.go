package torch

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/store"
)

// TestKeys checks that groups use the store keys that PyTorch's groups use.
func TestKeys(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		version backend.Version
		group   string
		number  int
		key     string
	}{
		{backend.Version{Major: 1, Minor: 13}, "0", 0, "0/0/k"},
		{backend.Version{Major: 1, Minor: 13}, "1", 1, "1/1/k"},
		{backend.Version{Major: 2, Minor: 6}, "0", 0, "0//cpu//0/k"},
		{backend.Version{Major: 2, Minor: 6}, "1", 2, "0//1//cpu//2/k"},
	} {
		s := store.NewHash()
		r := &Rendezvous{Version: c.version, Store: s, Name: c.group}
		require.NoError(t, r.Context(c.number).Set(ctx, "k", nil))
		ok, err := s.Check(ctx, c.key)
		require.NoError(t, err)
		require.True(t, ok, c.key)
	}
}

// TestMeet counts all ranks of the job where the version does, and agrees on a number.
func TestMeet(t *testing.T) {
	ctx := context.Background()
	s := store.NewHash()
	done := make(chan error, 2)
	for rank := range 2 {
		go func() {
			r := &Rendezvous{Version: backend.Version{Major: 1, Minor: 13}, Store: s, Name: "0", Number: 3, Rank: rank, Job: 2}
			err := r.Meet(ctx)
			if err == nil {
				err = r.Agree(ctx)
			}
			done <- err
		}()
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	n, err := s.Add(ctx, "store_based_barrier_key:3", 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	b, err := s.Get(ctx, "0/SEQ_NUM_STORE_KEY")
	require.NoError(t, err)
	require.Len(t, b, 8)
	require.NoError(t, (&Rendezvous{Version: backend.Version{Major: 2, Minor: 6}}).Meet(ctx), "later versions do nothing")
}
