package filestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/colligo-go/colligo/store"
)

// mode is what a call does with the file.
type mode struct {
	flags     int
	exclusive bool
}

var (
	read   = mode{os.O_RDONLY, false}
	write  = mode{os.O_RDWR, true}
	create = mode{os.O_RDWR | os.O_CREATE, true}
)

// permissions of a new file, as PyTorch gives it.
const permissions = 0o644

// pollInterval is how often a call looks again: for a key, or for a lock.
const pollInterval = 10 * time.Millisecond

// errReplaced is a file that is not the one that was opened.
var errReplaced = errors.New("file was removed or replaced by another run")

// errHeld is a lock that others did not let go of in time.
var errHeld = errors.New("lock is held by others")

// call runs f on the locked file, with values up to date, within the timeout. what and keys say in errors what it was.
func (s *Store) call(ctx context.Context, m mode, what string, f func(*os.File) error, keys ...string) error {
	b := s.limit.Start(ctx)
	defer b.Stop()
	return s.fault(b, what, keys, s.work(b, m, f))
}

// fault puts a call's error in words.
func (s *Store) fault(b *store.Bound, what string, keys []string, err error) error {
	switch {
	case err == nil:
		return nil
	case b.Err() != nil && errors.Is(err, errHeld):
		err = fmt.Errorf("%w: %w", errHeld, b.Fail(slashed(keys)...))
	case b.Err() != nil && errors.Is(err, context.Cause(b)):
		err = b.Fail(slashed(keys)...)
	case len(keys) == 1:
		what = fmt.Sprintf("%s %q", what, keys[0])
	case len(keys) > 1:
		what = fmt.Sprintf("%s %q and %d more", what, keys[0], len(keys)-1)
	}
	return fmt.Errorf("filestore: %s: %s: %w", s.path, what, err)
}

// slashed returns user keys as the file has them.
func slashed(keys []string) []string {
	full := make([]string, len(keys))
	for i, k := range keys {
		full[i] = userPrefix + k
	}
	return full
}

// work takes its turn among this store's calls.
func (s *Store) work(ctx context.Context, m mode, f func(*os.File) error) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case s.turn <- struct{}{}:
	}
	defer func() { <-s.turn }()
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.locked(ctx, m, f)
}

// locked opens and locks the file. When a new file was removed between the two, it tries again.
func (s *Store) locked(ctx context.Context, m mode, f func(*os.File) error) error {
	for {
		again, err := s.attempt(ctx, m, f)
		if !again {
			return err
		}
	}
}

func (s *Store) attempt(ctx context.Context, m mode, f func(*os.File) error) (again bool, err error) {
	file, err := os.OpenFile(s.path, m.flags, permissions)
	if err != nil {
		return false, err
	}
	// The lock goes with the descriptor.
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := acquire(ctx, file, m.exclusive); err != nil {
		return false, err
	}
	id, err := file.Stat()
	if err != nil {
		return false, err
	}
	if s.id == nil {
		now, err := os.Stat(s.path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(id, now) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	} else if !os.SameFile(id, s.id) {
		return false, errReplaced
	}
	if err := s.refresh(file, id.Size()); err != nil {
		return false, err
	}
	return false, f(file)
}

// acquire locks file, and looks again every so often while others have it, so that ctx can end it.
func acquire(ctx context.Context, file *os.File, exclusive bool) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, pollInterval) {
		got, err := tryLock(file, exclusive)
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		if got {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%w: %w", errHeld, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// refresh reads the records that were added since the last call. The file is locked and size bytes long.
func (s *Store) refresh(file *os.File, size int64) error {
	if size < s.offset {
		return fmt.Errorf("%d bytes long after %d were read: %w", size, s.offset, errReplaced)
	}
	left := size - s.offset
	l := &log{bufio.NewReader(io.NewSectionReader(file, s.offset, left)), left}
	for l.left > 0 {
		key, val, n, err := l.next()
		if err != nil {
			return fmt.Errorf("record at offset %d: %w", s.offset, err)
		}
		s.apply(key, val)
		s.offset += n
	}
	return nil
}

func (s *Store) apply(key string, val []byte) {
	if gone, ok := strings.CutPrefix(key, deleted); ok {
		delete(s.values, gone)
		return
	}
	s.values[key] = val
}

// write appends one record and applies it. The file is locked exclusively and refreshed. val is kept.
func (s *Store) write(file *os.File, key string, val []byte) error {
	if int64(len(key)) > maxKey || len(val) > store.MaxValue {
		return fmt.Errorf("key of %d bytes and value of %d: the limits are %d and %d",
			len(key), len(val), store.MaxKey, store.MaxValue)
	}
	rec := appendRecord(nil, key, val)
	if _, err := file.WriteAt(rec, s.offset); err != nil {
		return errors.Join(fmt.Errorf("write at offset %d: %w", s.offset, err), file.Truncate(s.offset))
	}
	s.apply(key, val)
	s.offset += int64(len(rec))
	return nil
}
