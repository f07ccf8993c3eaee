package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/colligo-go/colligo/store"
)

// Barrier returns when size ranks have called it for a name. It works through a store, with c10d's keys, and the last rank to
// leave removes them. c10d: _store_based_barrier.
func Barrier(ctx context.Context, s store.Store, name string, size int) error {
	key := "store_based_barrier_key:" + name
	last := key + ":last_worker"
	n, err := s.Add(ctx, key, 1)
	if err == nil && n == int64(size) {
		err = s.Set(ctx, last, []byte("1"))
	}
	if err == nil {
		err = s.Wait(ctx, last)
	}
	if err != nil {
		return fmt.Errorf("barrier in the store: %w", errors.Join(err, howMany(s, key, size)))
	}
	n, err = s.Add(ctx, key, 1)
	for _, k := range []string{key, last} {
		if err == nil && n == 2*int64(size) {
			_, err = s.Delete(ctx, k)
		}
	}
	if err != nil {
		return fmt.Errorf("after the barrier in the store: %w", err)
	}
	return nil
}

// howMany says how many ranks have come to a barrier.
func howMany(s store.Store, key string, size int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	n, err := s.Add(ctx, key, 0)
	if err != nil {
		return err
	}
	return fmt.Errorf("%d of %d ranks have come", n, size)
}
