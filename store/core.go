package store

import "context"

// Core is what a store of one's own must do: five methods, of which NewDerived makes a whole Store. None of them waits for a
// key. Keys and values are any bytes; a key is never empty. All ranks see one order of the changes of a key, and a change is
// seen by every call that begins after it has returned. Each method may be called by many goroutines at once, keeps no slice
// that it is given, and gives none that it changes later.
type Core interface {
	// Load returns key's value at once, and whether the key is there. An empty value is one.
	Load(ctx context.Context, key string) (val []byte, there bool, err error)
	// Store puts val under key, whatever is there.
	Store(ctx context.Context, key string, val []byte) error
	// CompareAndSwap puts val under key if the value there equals old, in one step, and reports whether it did. With a nil
	// old it does so if the key is missing. An old that is empty but not nil stands for an empty value.
	CompareAndSwap(ctx context.Context, key string, old, val []byte) (bool, error)
	// Delete removes key and reports whether it was there.
	Delete(ctx context.Context, key string) (bool, error)
	// Keys names all keys, in any order.
	Keys(ctx context.Context) ([]string, error)
}

// Adder is for a Core that adds to decimal numbers in one request, as Redis does. Without it Add loads and swaps until no other
// rank comes between.
type Adder interface {
	// Add does what Values.Add says.
	Add(ctx context.Context, key string, delta int64) (int64, error)
}

// Watcher is for a Core that tells of changes, as etcd does. Without it calls that wait for a key load it every so often.
type Watcher interface {
	// Watch returns a channel that can be received from after any change of one of keys that follows the call. One receive
	// may stand for many changes, and for none. When ctx ends, so does the watch. Once
	// the channel is closed, keys are loaded every so often.
	Watch(ctx context.Context, keys []string) (<-chan struct{}, error)
}

// Closer is for a Core that has something to give back. Close is called once.
type Closer interface{ Close() error }
