package store

import (
	"context"
	"time"
)

// Store is the place through which ranks exchange keys. It is the union of six small interfaces: take the one that you need.
// All implementations pass storetest.Run. A store of your own needs the five methods of Core alone: NewDerived makes a Store
// of them.
type Store interface {
	Values
	Batch
	Waiter
	Queue
	Lister
	Session
}

// Values reads and writes single keys.
type Values interface {
	// Set stores a copy of val under key and wakes all calls that wait for it.
	Set(ctx context.Context, key string, val []byte) error
	// Get blocks until key has a value and returns a copy.
	Get(ctx context.Context, key string) ([]byte, error)
	// Add adds delta to the decimal number under key (0 when missing) and returns the sum. A value that is not a
	// number, or a sum beyond int64, is an error.
	Add(ctx context.Context, key string, delta int64) (int64, error)
	// CompareSet stores desired if the value equals expected, or if key is missing and expected is empty. It returns
	// the value that holds afterwards; for a missing key that was left alone, it returns expected.
	CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error)
	// Delete removes key's value and reports whether there was one. Queues stay.
	Delete(ctx context.Context, key string) (bool, error)
	// Append adds val to the end of key's value; a missing key counts as empty.
	Append(ctx context.Context, key string, val []byte) error
}

// Batch reads and writes several keys in one request. A batch is not a transaction: others may see part of it.
type Batch interface {
	// MultiGet blocks until every key has a value and returns copies in the order of keys.
	MultiGet(ctx context.Context, keys []string) ([][]byte, error)
	// MultiSet stores vals[i] under keys[i]. Slices of different lengths are a programming error and panic.
	MultiSet(ctx context.Context, keys []string, vals [][]byte) error
}

// Waiter asks whether keys are there.
type Waiter interface {
	// Wait blocks until every key is present.
	Wait(ctx context.Context, keys ...string) error
	// Check reports at once whether every key is present.
	Check(ctx context.Context, keys ...string) (bool, error)
}

// Queue holds first-in first-out lists. Queues and values with the same key are apart. A store without queues returns
// ErrNotSupported.
type Queue interface {
	// QueuePush adds a copy of val to the end of key's queue and wakes one call that waits for it.
	QueuePush(ctx context.Context, key string, val []byte) error
	// QueuePop takes the first value. On an empty queue it waits if block is set, else it returns ErrQueueEmpty.
	QueuePop(ctx context.Context, key string, block bool) ([]byte, error)
	// QueueLen counts the values in key's queue.
	QueueLen(ctx context.Context, key string) (int64, error)
}

// Lister counts and names keys.
type Lister interface {
	// NumKeys counts the keys that have a value, the store's own bookkeeping keys included.
	NumKeys(ctx context.Context) (int64, error)
	// ListKeys names the user's keys that have a value, in ascending order.
	ListKeys(ctx context.Context) ([]string, error)
}

// Session is how a store is set up and given back.
type Session interface {
	// SetTimeout sets how long a call may take whose context has no deadline. Zero means for ever; a negative
	// duration panics. Calls under way keep the timeout that they started with.
	SetTimeout(d time.Duration)
	// Timeout returns what SetTimeout set.
	Timeout() time.Duration
	// Close gives the store back. Calls under way and later ones return ErrClosed. A second Close does nothing.
	Close() error
}

// Limits of the stores that leave the process, in the sizes that PyTorch 2.11's TCPStore server accepts. A key is
// measured as it is stored, prefixes included.
const (
	MaxKey   = 8192    // bytes in a key
	MaxValue = 8 << 20 // bytes in a value
	MaxKeys  = 131072  // keys in one request
)

// DefaultTimeout is the timeout of a store that was not told otherwise.
const DefaultTimeout = 300 * time.Second
