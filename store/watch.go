package store

import "slices"

// Watch is a pending wait in a Table.
type Watch struct {
	t       *Table
	in      waiters
	keys    []string // where it is registered, one entry for each
	missing int      // keys still to come
	fire    func()
	queue   string // the key whose queue made it fire; see Cancel
	queued  bool
}

// waiters are the pending watches by key, in order of arrival.
type waiters map[string][]*Watch

// Watch calls fire once, when each of keys has been present at some time since. If all are present now, it returns nil and
// never calls fire. The table is locked while fire runs, which must neither block nor call the table. The caller ends every
// watch, fired or not: with Claim if it goes on to pop the queue that it waited for, else with Cancel.
func (t *Table) Watch(keys []string, fire func()) *Watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &Watch{t: t, in: t.watchers, fire: fire}
	for _, k := range keys {
		if t.missing(k) {
			w.register(k)
		}
	}
	if w.missing == 0 {
		return nil
	}
	return w
}

// Arrive adds one to the counter at key. Once the counter reaches size, all callers at the barrier pass: Arrive returns nil,
// and the others' fire is called. Before that it registers the caller as Watch does. The counter is not reset, so every use
// needs a fresh key.
func (t *Table) Arrive(key string, size int64, fire func()) (*Watch, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.add(key, 1)
	if err != nil {
		return nil, err
	}
	if n >= size {
		t.arrivals.wakeAll(key)
		return nil, nil
	}
	w := &Watch{t: t, in: t.arrivals, fire: fire}
	w.register(key)
	return w, nil
}

func (w *Watch) register(key string) {
	w.in[key] = append(w.in[key], w)
	w.keys = append(w.keys, key)
	w.missing++
}

// Cancel ends the watch; fire is not called afterwards. A watch that a queue's value has fired was that value's only notice.
// So Cancel passes the notice on to the next watcher if the value is still there.
func (w *Watch) Cancel() {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	w.end()
	if w.queued && len(w.t.queues[w.queue]) > 0 {
		w.in.wakeOne(w.queue)
	}
	w.queued = false
}

// Claim ends the watch as Cancel does, but for a caller that now pops the queue it waited for: no one else is woken.
func (w *Watch) Claim() {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	w.end()
	w.queued = false
}

func (w *Watch) end() {
	if w.missing > 0 {
		w.missing = 0
		for _, k := range w.keys {
			w.in.remove(k, w)
		}
	}
}

func (ws waiters) remove(key string, w *Watch) {
	list := slices.DeleteFunc(ws[key], func(x *Watch) bool { return x == w })
	if ws[key] = list; len(list) == 0 {
		delete(ws, key)
	}
}

// count takes one key off the keys that w waits for, and reports whether that was the last.
func (w *Watch) count() bool {
	if w.missing--; w.missing == 0 {
		w.fire()
		return true
	}
	return false
}

func (ws waiters) wakeAll(key string) {
	list := ws[key]
	delete(ws, key)
	for _, w := range list {
		w.count()
	}
}

// wakeOne serves watchers in order until one fires.
func (ws waiters) wakeOne(key string) {
	for list := ws[key]; len(list) > 0; {
		w := list[0]
		list = list[1:]
		if ws[key] = list; len(list) == 0 {
			delete(ws, key)
		}
		if w.count() {
			w.queue, w.queued = key, true
			return
		}
	}
}

// Watches counts the watches that have not fired, once for each key that they miss.
func (t *Table) Watches() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, ws := range []waiters{t.watchers, t.arrivals} {
		for _, list := range ws {
			n += len(list)
		}
	}
	return n
}
