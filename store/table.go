package store

import (
	"slices"
	"sync"
)

// Table is the state behind Hash and behind tcpstore's server: values, queues, and the watches for them. It never blocks and
// never copies. It keeps the slices that it is given; callers only read the slices that it returns, which stay as they are.
// Its methods may be called by many goroutines at once.
type Table struct {
	mu       sync.Mutex
	values   map[string][]byte
	queues   map[string][][]byte
	watchers waiters // by the key that they miss
	arrivals waiters // by the barrier that they stand at
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{
		values:   make(map[string][]byte),
		queues:   make(map[string][][]byte),
		watchers: make(waiters),
		arrivals: make(waiters),
	}
}

// Set stores val.
func (t *Table) Set(key string, val []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(key, val)
}

// put stores val and fires all watches of key. The caller holds mu.
func (t *Table) put(key string, val []byte) {
	t.values[key] = val
	t.watchers.wakeAll(key)
}

// Get returns key's value and whether it has one.
func (t *Table) Get(key string) ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.values[key]
	return v, ok
}

// Add adds delta by the rule of NextCount.
func (t *Table) Add(key string, delta int64) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.add(key, delta)
}

func (t *Table) add(key string, delta int64) (int64, error) {
	cur, present := t.values[key]
	sum, err := NextCount(cur, present, delta)
	if err == nil {
		t.put(key, CountText(sum))
	}
	return sum, err
}

// CompareSet applies the rule of Exchange.
func (t *Table) CompareSet(key string, expected, desired []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	cur, present := t.values[key]
	told, stored := Exchange(cur, present, expected, desired)
	if stored {
		t.put(key, desired)
	}
	return told
}

// Append adds val to key's value. Slices handed out before stay as they are: their length hides what follows.
func (t *Table) Append(key string, val []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(key, append(t.values[key], val...))
}

// Delete removes key's value and reports whether there was one.
func (t *Table) Delete(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, present := t.values[key]
	delete(t.values, key)
	return present
}

// Check reports whether every key is present.
func (t *Table) Check(keys []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.ContainsFunc(keys, t.missing)
}

// missing reports whether key has neither a value nor a non-empty queue. mu is held.
func (t *Table) missing(key string) bool {
	_, present := t.values[key]
	return !present && len(t.queues[key]) == 0
}

// Push adds val to key's queue and wakes the first watcher whose watch that completes. One value serves one taker, so
// waking more would send the others to an empty queue.
func (t *Table) Push(key string, val []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queues[key] = append(t.queues[key], val)
	t.watchers.wakeOne(key)
}

// Pop takes the first value of key's queue. n is the queue's length before; with n zero there is no value.
func (t *Table) Pop(key string) (val []byte, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[key]
	if len(q) == 0 {
		return nil, 0
	}
	val, q[0] = q[0], nil
	if t.queues[key] = q[1:]; len(q) == 1 {
		delete(t.queues, key)
	}
	return val, len(q)
}

// QueueLen counts the values in key's queue.
func (t *Table) QueueLen(key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queues[key])
}

// Len counts the keys that have a value.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.values)
}

// Keys names the keys that have a value, in ascending order.
func (t *Table) Keys() []string {
	t.mu.Lock()
	keys := make([]string, 0, len(t.values))
	for k := range t.values {
		keys = append(keys, k)
	}
	t.mu.Unlock()
	slices.Sort(keys)
	return keys
}
