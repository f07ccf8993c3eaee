package filestore

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/colligo-go/colligo/store"
)

// until looks at the file until every key has a value, and then calls f with the lock held.
func (s *Store) until(ctx context.Context, what string, f func(), keys ...string) error {
	full := slashed(keys)
	b := s.limit.Start(ctx)
	defer b.Stop()
	for {
		ready := false
		err := s.work(b, read, func(*os.File) error {
			if ready = s.has(full); ready {
				f()
			}
			return nil
		})
		if err != nil || ready {
			return s.fault(b, what, keys, err)
		}
		s.pause(b)
	}
}

// pause lets others have the file until it is time to look again.
func (s *Store) pause(ctx context.Context) {
	t := time.NewTimer(pollInterval)
	defer t.Stop()
	select {
	case <-s.closed:
	case <-ctx.Done():
	case <-t.C:
	}
}

// has reports whether every key, as the file has them, has a value.
func (s *Store) has(full []string) bool {
	return !slices.ContainsFunc(full, func(k string) bool {
		_, there := s.values[k]
		return !there
	})
}

func copyOf(val []byte) []byte { return append([]byte{}, val...) }

// Set implements store.Values.
func (s *Store) Set(ctx context.Context, key string, val []byte) error {
	return s.call(ctx, write, "set", func(f *os.File) error {
		return s.write(f, userPrefix+key, copyOf(val))
	}, key)
}

// Get implements store.Values.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	vals, err := s.MultiGet(ctx, []string{key})
	if err != nil {
		return nil, err
	}
	return vals[0], nil
}

// Add implements store.Values.
func (s *Store) Add(ctx context.Context, key string, delta int64) (sum int64, err error) {
	err = s.call(ctx, write, "add", func(f *os.File) (err error) {
		cur, there := s.values[userPrefix+key]
		if sum, err = store.NextCount(cur, there, delta); err != nil {
			return err
		}
		return s.write(f, userPrefix+key, store.CountText(sum))
	}, key)
	return sum, err
}

// CompareSet implements store.Values.
func (s *Store) CompareSet(ctx context.Context, key string, expected, desired []byte) (told []byte, err error) {
	err = s.call(ctx, write, "compare_set", func(f *os.File) error {
		cur, there := s.values[userPrefix+key]
		now, stored := store.Exchange(cur, there, expected, desired)
		told = copyOf(now)
		if !stored {
			return nil
		}
		return s.write(f, userPrefix+key, copyOf(desired))
	}, key)
	return told, err
}

// Delete implements store.Values. PyTorch's reports true for a missing key too, and writes a record for it.
func (s *Store) Delete(ctx context.Context, key string) (there bool, err error) {
	err = s.call(ctx, write, "delete_key", func(f *os.File) error {
		if _, there = s.values[userPrefix+key]; !there {
			return nil
		}
		return s.write(f, deleted+userPrefix+key, nil)
	}, key)
	return there, err
}

// Append implements store.Values. It writes the whole value anew.
func (s *Store) Append(ctx context.Context, key string, val []byte) error {
	return s.call(ctx, write, "append", func(f *os.File) error {
		return s.write(f, userPrefix+key, slices.Concat(s.values[userPrefix+key], val))
	}, key)
}

// MultiGet implements store.Batch.
func (s *Store) MultiGet(ctx context.Context, keys []string) ([][]byte, error) {
	vals := make([][]byte, len(keys))
	err := s.until(ctx, "get", func() {
		for i, k := range keys {
			vals[i] = copyOf(s.values[userPrefix+k])
		}
	}, keys...)
	if err != nil {
		return nil, err
	}
	return vals, nil
}

// MultiSet implements store.Batch.
func (s *Store) MultiSet(ctx context.Context, keys []string, vals [][]byte) error {
	store.Pairs(keys, vals)
	if len(keys) == 0 {
		return nil
	}
	return s.call(ctx, write, "multi_set", func(f *os.File) error {
		for i, k := range keys {
			if err := s.write(f, userPrefix+k, copyOf(vals[i])); err != nil {
				return err
			}
		}
		return nil
	}, keys...)
}

// Wait implements store.Waiter.
func (s *Store) Wait(ctx context.Context, keys ...string) error {
	return s.until(ctx, "wait", func() {}, keys...)
}

// Check implements store.Waiter.
func (s *Store) Check(ctx context.Context, keys ...string) (ready bool, err error) {
	err = s.call(ctx, read, "check", func(*os.File) error {
		ready = s.has(slashed(keys))
		return nil
	}, keys...)
	return ready, err
}

// NumKeys implements store.Lister. It counts "refcount/" and "cleanup/" too, as PyTorch's does.
func (s *Store) NumKeys(ctx context.Context) (n int64, err error) {
	err = s.call(ctx, read, "num_keys", func(*os.File) error {
		n = int64(len(s.values))
		return nil
	})
	return n, err
}

// ListKeys implements store.Lister.
func (s *Store) ListKeys(ctx context.Context) ([]string, error) {
	var keys []string
	err := s.call(ctx, read, "list_keys", func(*os.File) error {
		for k := range s.values {
			if user, ok := strings.CutPrefix(k, userPrefix); ok {
				keys = append(keys, user)
			}
		}
		return nil
	})
	slices.Sort(keys)
	return keys, err
}

// QueuePush implements store.Queue. The format has no queues.
func (s *Store) QueuePush(context.Context, string, []byte) error { return s.noQueues() }

// QueuePop implements store.Queue. The format has no queues.
func (s *Store) QueuePop(context.Context, string, bool) ([]byte, error) { return nil, s.noQueues() }

// QueueLen implements store.Queue. The format has no queues.
func (s *Store) QueueLen(context.Context, string) (int64, error) { return 0, s.noQueues() }

func (s *Store) noQueues() error {
	return fmt.Errorf("filestore: %s: queues: %w", s.path, store.ErrNotSupported)
}
