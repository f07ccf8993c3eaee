package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/colligo-go/colligo/store"
)

// ErrForeign is what Open returns for a file that belongs to another run.
var ErrForeign = errors.New("file belongs to another run, remove it or choose another path")

// Options sets up a store. The zero value suits ranks that do not know their number: the file stays when all have
// closed it.
type Options struct {
	// Size is the number of ranks that share the file. With it, Open refuses a file that Size ranks have open or have
	// closed, and the last of Size ranks to close removes the file. Zero means unknown.
	Size int
	// Timeout is the store's first timeout. Zero means store.DefaultTimeout; SetTimeout(0) means for ever.
	Timeout time.Duration
}

// Store is a rank's view of the file.
type Store struct {
	path   string
	size   int
	joined int64
	limit  store.Limit
	once   sync.Once
	closed chan struct{}

	turn   chan struct{} // holds one token while a call is at work; guards what follows
	id     fs.FileInfo   // of the file that Open found or made
	anchor *os.File      // keeps that file's identity from being given to another, should it be removed
	values map[string][]byte
	offset int64 // up to which values has the file's records
}

var _ store.Store = (*Store)(nil)

// The keys outside the user's space.
const (
	refKey     = "refcount/"
	cleanupKey = "cleanup/"
	userPrefix = "/"
	deleted    = "-" // before the key that a record takes back
)

// Open joins the ranks that share the file at path, and makes the file if it is not there. Its directory must exist.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	s := &Store{
		path:   path,
		size:   opts.Size,
		closed: make(chan struct{}),
		turn:   make(chan struct{}, 1),
		values: make(map[string][]byte),
	}
	s.limit.Set(store.DefaultTimeout)
	if opts.Timeout != 0 {
		s.limit.Set(opts.Timeout)
	}
	err := s.call(ctx, create, "open", s.join)
	if err == nil {
		return s, nil
	}
	if s.anchor != nil {
		err = errors.Join(err, s.anchor.Close())
	}
	return nil, err
}

// join counts this rank in, unless the file is another run's.
func (s *Store) join(f *os.File) error {
	open, err := s.count(refKey)
	if err != nil {
		return err
	}
	done, err := s.count(cleanupKey)
	if err != nil {
		return err
	}
	if size := int64(s.size); size > 0 && (open >= size || done >= size) {
		return fmt.Errorf("%d ranks have it open and %d have closed it, of %d: %w", open, done, size, ErrForeign)
	}
	if s.anchor, err = os.Open(s.path); err != nil {
		return err
	}
	if s.id, err = s.anchor.Stat(); err != nil {
		return err
	}
	s.joined = open + 1
	return s.write(f, refKey, store.CountText(s.joined))
}

// count reads one of the counters.
func (s *Store) count(key string) (int64, error) {
	text, there := s.values[key]
	if !there {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %.40q, not a number", key, text)
	}
	return n, nil
}

// Joined is how many ranks had the file open once this one had opened it, this one included. More than the ranks that
// can have come so far means that the file is left over from another run.
func (s *Store) Joined() int64 { return s.joined }

// Path is the file's path as it was given to Open.
func (s *Store) Path() string { return s.path }

// SetTimeout implements store.Session.
func (s *Store) SetTimeout(d time.Duration) { s.limit.Set(d) }

// Timeout implements store.Session.
func (s *Store) Timeout() time.Duration { return s.limit.Get() }

// Close implements store.Session. It counts this rank out; the last of Options.Size ranks removes the file. A file that
// is gone already is no error.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		last := false
		err = s.call(context.Background(), write, "close", func(f *os.File) (err error) {
			last, err = s.leave(f)
			return err
		})
		close(s.closed)
		err = errors.Join(err, s.anchor.Close())
		if err == nil && last && !removeLocked {
			err = os.Remove(s.path)
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// leave counts this rank out and reports whether it was the last. If so, it removes the file where the system allows
// that while the file is locked: another run cannot slip in between.
func (s *Store) leave(f *os.File) (last bool, err error) {
	done, err := s.count(cleanupKey)
	if err != nil {
		return false, err
	}
	open, err := s.count(refKey)
	if err != nil {
		return false, err
	}
	done, open = done+1, open-1
	if err := s.write(f, cleanupKey, store.CountText(done)); err != nil {
		return false, err
	}
	if err := s.write(f, refKey, store.CountText(open)); err != nil {
		return false, err
	}
	last = s.size > 0 && open == 0 && done >= int64(s.size)
	if last && removeLocked {
		err = os.Remove(s.path)
	}
	return last, err
}
