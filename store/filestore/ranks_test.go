package filestore

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRanks lets ranks with a store each, as processes have, count, meet and leave at one file.
func TestRanks(t *testing.T) {
	const size, rounds = 6, 15
	path := filepath.Join(t.TempDir(), "store")
	var all sync.WaitGroup
	errs := make(chan error, size)
	for rank := range size {
		all.Go(func() { errs <- runRank(t, path, rank, size, rounds) })
	}
	all.Wait()
	for range size {
		require.NoError(t, <-errs)
	}
	require.NoFileExists(t, path)
}

func runRank(t *testing.T, path string, rank, size, rounds int) error {
	ctx := t.Context()
	s, err := Open(ctx, path, Options{Size: size})
	if err != nil {
		return err
	}
	for i := range rounds {
		if _, err := s.Add(ctx, "sum", int64(rank)); err != nil {
			return err
		}
		if err := s.Set(ctx, fmt.Sprintf("%d/%d", i, rank), []byte{byte(rank)}); err != nil {
			return err
		}
		for peer := range size {
			v, err := s.Get(ctx, fmt.Sprintf("%d/%d", i, peer))
			if err != nil || len(v) != 1 || int(v[0]) != peer {
				return fmt.Errorf("round %d of rank %d: peer %d: %x, %w", i, rank, peer, v, err)
			}
		}
	}
	if _, err := s.Add(ctx, "finished", 1); err != nil {
		return err
	}
	n := int64(0)
	for n < int64(size) {
		if n, err = s.Add(ctx, "finished", 0); err != nil {
			return err
		}
	}
	sum, err := s.Add(ctx, "sum", 0)
	if want := int64(rounds * size * (size - 1) / 2); err != nil || sum != want {
		return fmt.Errorf("rank %d: sum %d, want %d, %w", rank, sum, want, err)
	}
	return s.Close()
}
