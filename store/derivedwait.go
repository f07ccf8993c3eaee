package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// await returns when key has a value or a queue that is not empty.
func (d *Derived) await(ctx context.Context, key string) error {
	return d.until(ctx, key, func(ctx context.Context) (bool, error) { return d.present(ctx, key) })
}

// present reports whether key has a value or a queue that is not empty.
func (d *Derived) present(ctx context.Context, key string) (bool, error) {
	if _, there, err := d.core.Load(ctx, valuePrefix+key); there || err != nil {
		return there, err
	}
	queue, _, err := d.core.Load(ctx, queuePrefix+key)
	return len(queue) > 0, err
}

// until asks again, whenever key may have changed, until the answer is yes.
func (d *Derived) until(ctx context.Context, key string, ask func(ctx context.Context) (bool, error)) error {
	if yes, err := ask(ctx); yes || err != nil {
		return err
	}
	w, ok := d.core.(Watcher)
	if !ok {
		return poll(ctx, ask)
	}
	watched, stop := context.WithCancel(ctx)
	defer stop()
	changed, err := w.Watch(watched, []string{valuePrefix + key, queuePrefix + key})
	if err != nil {
		return err
	}
	for { // the first look stands behind Watch, which tells of nothing that was before it
		if yes, err := ask(ctx); yes || err != nil {
			return err
		}
		select {
		case _, open := <-changed:
			if !open {
				return poll(ctx, ask)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// poll asks every so often until the answer is yes.
func poll(ctx context.Context, ask func(ctx context.Context) (bool, error)) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
		if yes, err := ask(ctx); yes || err != nil {
			return err
		}
	}
}

// Wait implements Waiter. It waits for one key after another.
func (d *Derived) Wait(ctx context.Context, keys ...string) error {
	return d.call(ctx, "wait", under(keys...), func(ctx context.Context) error {
		for _, k := range keys {
			if err := d.await(ctx, k); err != nil {
				return err
			}
		}
		return nil
	})
}

// Check implements Waiter.
func (d *Derived) Check(ctx context.Context, keys ...string) (all bool, err error) {
	err = d.call(ctx, "check", under(keys...), func(ctx context.Context) error {
		for _, k := range keys {
			if there, err := d.present(ctx, k); err != nil || !there {
				return err
			}
		}
		all = true
		return nil
	})
	return all, err
}

// QueuePush implements Queue.
func (d *Derived) QueuePush(ctx context.Context, key string, val []byte) error {
	return d.call(ctx, "queue_push", under(key), func(ctx context.Context) error {
		return d.update(ctx, queuePrefix+key, func(queue []byte, _ bool) ([]byte, bool, error) {
			longer := binary.AppendUvarint(copyOf(queue), uint64(len(val)))
			return append(longer, val...), false, nil
		})
	})
}

// QueuePop implements Queue.
func (d *Derived) QueuePop(ctx context.Context, key string, block bool) (val []byte, err error) {
	err = d.call(ctx, "queue_pop", under(key), func(ctx context.Context) error {
		took, err := false, error(nil)
		take := func(ctx context.Context) (bool, error) {
			val, took, err = d.take(ctx, key)
			return took, err
		}
		if block {
			return d.until(ctx, key, take)
		}
		if took, err = take(ctx); err == nil && !took {
			err = ErrQueueEmpty
		}
		return err
	})
	return val, err
}

// take pops the first value of key's queue, if there is one.
func (d *Derived) take(ctx context.Context, key string) (val []byte, took bool, err error) {
	err = d.update(ctx, queuePrefix+key, func(queue []byte, _ bool) (rest []byte, keep bool, err error) {
		if took = len(queue) > 0; !took {
			return nil, true, nil
		}
		first, rest, err := front(queue)
		val = copyOf(first)
		return copyOf(rest), false, err
	})
	return val, took && err == nil, err
}

// QueueLen implements Queue.
func (d *Derived) QueueLen(ctx context.Context, key string) (n int64, err error) {
	err = d.call(ctx, "queue_len", under(key), func(ctx context.Context) error {
		queue, _, err := d.core.Load(ctx, queuePrefix+key)
		for err == nil && len(queue) > 0 {
			_, queue, err = front(queue)
			n++
		}
		return err
	})
	return n, err
}

// errQueue is a queue that no QueuePush has written.
var errQueue = errors.New("the queue's bytes are not those of a queue")

// front splits a queue that is not empty behind its first value, before which its length stands.
func front(queue []byte) (val, rest []byte, err error) {
	n, width := binary.Uvarint(queue)
	if width <= 0 || n > uint64(len(queue)-width) {
		return nil, nil, fmt.Errorf("%w (%d bytes)", errQueue, len(queue))
	}
	return queue[width : width+int(n)], queue[width+int(n):], nil
}
