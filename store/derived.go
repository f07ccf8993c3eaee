package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Derived is a Store made of the five methods of a Core. Values lie in the Core under "/" and their key, queues under "queue/"
// and theirs, so a Core can serve other programs beside it. A queue is one value in the Core, so every call copies all of it:
// queues are for a few small values.
type Derived struct {
	core   Core
	limit  Limit
	once   sync.Once
	closed context.Context // ended by Close
	shut   context.CancelCauseFunc
}

var _ Store = (*Derived)(nil)

// The beginnings of a key in the Core.
const (
	valuePrefix = "/"
	queuePrefix = "queue/"
)

// Pauses between two looks at a key of a Core without Watcher: the first, and the longest that it grows to.
const (
	firstPause = time.Millisecond
	maxPause   = 20 * time.Millisecond
)

// NewDerived returns a store on a Core, with DefaultTimeout. It uses Adder, Watcher and Closer if the Core has them. Ranks
// in several processes make one each, on Cores that reach the same keys.
func NewDerived(core Core) *Derived {
	d := &Derived{core: core}
	d.closed, d.shut = context.WithCancelCause(context.Background())
	d.limit.Set(DefaultTimeout)
	return d
}

// call runs f within the timeout, and until Close. It puts the error of f in words: what the call was, and for which keys.
func (d *Derived) call(ctx context.Context, what string, keys []string, f func(ctx context.Context) error) error {
	b := d.limit.Start(ctx)
	defer b.Stop()
	until, stop := context.WithCancelCause(b)
	defer stop(nil)
	defer context.AfterFunc(d.closed, func() { stop(ErrClosed) })()
	err := context.Cause(d.closed)
	if err == nil {
		err = context.Cause(b)
	}
	if err == nil {
		err = f(until)
	}
	switch {
	case err == nil:
		return nil
	case d.closed.Err() != nil:
		err = ErrClosed
	case b.Over() && (errors.Is(err, until.Err()) || errors.Is(err, context.Cause(until))):
		return fmt.Errorf("store: %s: %w", what, b.Fail(keys...))
	case b.Over(): // what the Core says may be the reason
		return fmt.Errorf("store: %s: %w: %w", what, b.Fail(keys...), err)
	case len(keys) > 0:
		what = fmt.Sprintf("%s %.40q", what, strings.TrimPrefix(keys[0], valuePrefix))
	}
	return fmt.Errorf("store: %s: %w", what, err)
}

// under returns keys as the Core has them.
func under(keys ...string) []string {
	full := make([]string, len(keys))
	for i, k := range keys {
		full[i] = valuePrefix + k
	}
	return full
}

// update replaces what is under key by what next makes of it, again and again until no other rank comes between. With keep
// set, nothing is to be stored.
func (d *Derived) update(ctx context.Context, key string, next func(cur []byte, there bool) (val []byte, keep bool, err error)) error {
	for {
		cur, there, err := d.core.Load(ctx, key)
		if err != nil {
			return err
		}
		val, keep, err := next(cur, there)
		if err != nil || keep {
			return err
		}
		old := copyOf(cur)
		if !there {
			old = nil
		}
		if done, err := d.core.CompareAndSwap(ctx, key, old, val); err != nil || done {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// Set implements Values.
func (d *Derived) Set(ctx context.Context, key string, val []byte) error {
	full := under(key)
	return d.call(ctx, "set", full, func(ctx context.Context) error { return d.core.Store(ctx, full[0], copyOf(val)) })
}

// Get implements Values.
func (d *Derived) Get(ctx context.Context, key string) ([]byte, error) {
	vals, err := d.MultiGet(ctx, []string{key})
	if err != nil {
		return nil, err
	}
	return vals[0], nil
}

// Add implements Values.
func (d *Derived) Add(ctx context.Context, key string, delta int64) (sum int64, err error) {
	full := under(key)
	err = d.call(ctx, "add", full, func(ctx context.Context) (err error) {
		if a, ok := d.core.(Adder); ok {
			sum, err = a.Add(ctx, full[0], delta)
			return err
		}
		return d.update(ctx, full[0], func(cur []byte, there bool) (val []byte, keep bool, err error) {
			sum, err = NextCount(cur, there, delta)
			return CountText(sum), false, err
		})
	})
	return sum, err
}

// CompareSet implements Values.
func (d *Derived) CompareSet(ctx context.Context, key string, expected, desired []byte) (told []byte, err error) {
	full := under(key)
	err = d.call(ctx, "compare_set", full, func(ctx context.Context) error {
		return d.update(ctx, full[0], func(cur []byte, there bool) (val []byte, keep bool, err error) {
			now, stored := Exchange(cur, there, expected, desired)
			told = copyOf(now)
			return copyOf(desired), !stored, nil
		})
	})
	return told, err
}

// Delete implements Values.
func (d *Derived) Delete(ctx context.Context, key string) (there bool, err error) {
	full := under(key)
	err = d.call(ctx, "delete_key", full, func(ctx context.Context) (err error) {
		there, err = d.core.Delete(ctx, full[0])
		return err
	})
	return there, err
}

// Append implements Values.
func (d *Derived) Append(ctx context.Context, key string, val []byte) error {
	full := under(key)
	return d.call(ctx, "append", full, func(ctx context.Context) error {
		return d.update(ctx, full[0], func(cur []byte, _ bool) ([]byte, bool, error) { return slices.Concat(cur, val), false, nil })
	})
}

// MultiGet implements Batch. It asks for one key after another.
func (d *Derived) MultiGet(ctx context.Context, keys []string) ([][]byte, error) {
	vals := make([][]byte, len(keys))
	full := under(keys...)
	err := d.call(ctx, "get", full, func(ctx context.Context) error {
		for i, k := range keys {
			if err := d.await(ctx, k); err != nil {
				return err
			}
			val, there, err := d.core.Load(ctx, full[i])
			if err != nil {
				return err
			}
			if !there {
				return fmt.Errorf("only a queue has the key %.40q, or it was deleted meanwhile", k)
			}
			vals[i] = copyOf(val)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return vals, nil
}

// MultiSet implements Batch. It sets one key after another.
func (d *Derived) MultiSet(ctx context.Context, keys []string, vals [][]byte) error {
	Pairs(keys, vals)
	for i, k := range keys {
		if err := d.Set(ctx, k, vals[i]); err != nil {
			return err
		}
	}
	return nil
}

// NumKeys implements Lister. It counts the keys that ListKeys names.
func (d *Derived) NumKeys(ctx context.Context) (int64, error) {
	keys, err := d.ListKeys(ctx)
	return int64(len(keys)), err
}

// ListKeys implements Lister.
func (d *Derived) ListKeys(ctx context.Context) (keys []string, err error) {
	err = d.call(ctx, "list_keys", nil, func(ctx context.Context) error {
		all, err := d.core.Keys(ctx)
		for _, k := range all {
			if user, ok := strings.CutPrefix(k, valuePrefix); ok {
				keys = append(keys, user)
			}
		}
		return err
	})
	slices.Sort(keys)
	return keys, err
}

// SetTimeout implements Session. The timeout holds for this process alone.
func (d *Derived) SetTimeout(timeout time.Duration) { d.limit.Set(timeout) }

// Timeout implements Session.
func (d *Derived) Timeout() time.Duration { return d.limit.Get() }

// Close implements Session. It closes a Core that is a Closer; its keys stay.
func (d *Derived) Close() (err error) {
	d.once.Do(func() {
		d.shut(ErrClosed)
		if c, ok := d.core.(Closer); ok {
			err = c.Close()
		}
	})
	return err
}
