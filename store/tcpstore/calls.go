package tcpstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/colligo-go/colligo/store"
)

// wired returns the keys as the server knows them.
func wired(keys []string) []string {
	full := make([]string, len(keys))
	for i, k := range keys {
		full[i] = userPrefix + k
	}
	return full
}

// fits checks a request against the server's limits, whose only answer would be to close the connection.
func fits(name string, keys []string, vals ...[]byte) error {
	if len(keys) > store.MaxKeys {
		return fmt.Errorf("tcpstore: %s: %d keys in one request exceed %d", name, len(keys), store.MaxKeys)
	}
	total := 0
	for _, k := range keys {
		if total += len(k); len(k) > store.MaxKey {
			return fmt.Errorf("tcpstore: %s: key %.40q... of %d bytes exceeds %d", name, k, len(k), store.MaxKey)
		}
	}
	if total > maxKeyBytes {
		return fmt.Errorf("tcpstore: %s: %d bytes of keys in one request exceed %d", name, total, maxKeyBytes)
	}
	for _, v := range vals {
		if len(v) > store.MaxValue {
			return fmt.Errorf("tcpstore: %s%s: value of %d bytes exceeds %d", name, named(keys), len(v), store.MaxValue)
		}
	}
	return nil
}

// send makes a request without a reply.
func (c *Client) send(ctx context.Context, name string, cmd byte, key string, val []byte) error {
	k := c.start(ctx, name, userPrefix+key)
	defer k.Stop()
	if err := errors.Join(c.has(name, cmd), fits(name, k.keys, val)); err != nil {
		return err
	}
	return c.do(k, request{cmd}.string(k.keys[0]).bytes(val), nil)
}

// Set implements store.Values. It returns when the request is sent; the server has no reply.
func (c *Client) Set(ctx context.Context, key string, val []byte) error {
	return c.send(ctx, "set", cmdSet, key, val)
}

// Append implements store.Values. It returns when the request is sent, as Set does.
func (c *Client) Append(ctx context.Context, key string, val []byte) error {
	return c.send(ctx, "append", cmdAppend, key, val)
}

// QueuePush implements store.Queue. It returns when the request is sent, as Set does. Servers have queues from PyTorch
// 2.8 on.
func (c *Client) QueuePush(ctx context.Context, key string, val []byte) error {
	return c.send(ctx, "queue_push", cmdQueuePush, key, val)
}

// Get implements store.Values.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	return c.get(ctx, userPrefix+key)
}

func (c *Client) get(ctx context.Context, key string) ([]byte, error) {
	k := c.start(ctx, "get", key)
	defer k.Stop()
	if err := fits(k.name, k.keys); err != nil {
		return nil, err
	}
	if err := c.await(k, nil); err != nil {
		return nil, err
	}
	var val []byte
	err := c.collect(k, request{cmdGet}.string(key), func(r reader) (err error) {
		val, err = r.bytes("value", maxReply)
		return err
	})
	if err != nil {
		return nil, err
	}
	return val, nil
}

// number makes a request whose reply is an integer. more, if not nil, follows the key.
func (c *Client) number(ctx context.Context, name string, cmd byte, keys []string, more ...int64) (n int64, err error) {
	k := c.start(ctx, name, keys...)
	defer k.Stop()
	if err := errors.Join(c.has(name, cmd), fits(name, keys)); err != nil {
		return 0, err
	}
	q := request{cmd}
	for _, key := range keys {
		q = q.string(key)
	}
	for _, m := range more {
		q = q.int64(m)
	}
	err = c.do(k, q, func(r reader) (err error) {
		n, err = r.int64()
		return err
	})
	return n, err
}

// Add implements store.Values. If the value is not a number, the server closes the connection and the client is lost.
func (c *Client) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return c.add(ctx, userPrefix+key, delta)
}

func (c *Client) add(ctx context.Context, key string, delta int64) (int64, error) {
	return c.number(ctx, "add", cmdAdd, []string{key}, delta)
}

// Delete implements store.Values.
func (c *Client) Delete(ctx context.Context, key string) (bool, error) {
	n, err := c.number(ctx, "delete_key", cmdDelete, wired([]string{key}))
	return n > 0, err
}

// QueueLen implements store.Queue.
func (c *Client) QueueLen(ctx context.Context, key string) (int64, error) {
	return c.number(ctx, "queue_len", cmdQueueLen, wired([]string{key}))
}

// NumKeys implements store.Lister. It counts "init/" too, where workers were counted.
func (c *Client) NumKeys(ctx context.Context) (int64, error) {
	return c.number(ctx, "num_keys", cmdNumKeys, nil)
}

// CompareSet implements store.Values.
func (c *Client) CompareSet(ctx context.Context, key string, expected, desired []byte) (val []byte, err error) {
	k := c.start(ctx, "compare_set", userPrefix+key)
	defer k.Stop()
	if err := fits(k.name, k.keys, expected, desired); err != nil {
		return nil, err
	}
	err = c.do(k, request{cmdCompareSet}.string(k.keys[0]).bytes(expected).bytes(desired), func(r reader) (err error) {
		val, err = r.bytes("value", maxReply)
		return err
	})
	return val, err
}

// MultiGet implements store.Batch.
func (c *Client) MultiGet(ctx context.Context, keys []string) ([][]byte, error) {
	k := c.start(ctx, "multi_get", wired(keys)...)
	defer k.Stop()
	if err := fits(k.name, k.keys); err != nil || len(keys) == 0 {
		return nil, err
	}
	if err := c.await(k, nil); err != nil {
		return nil, err
	}
	vals := make([][]byte, len(keys))
	if c.dialer.dialect == Torch113 {
		return c.getEach(ctx, keys, vals)
	}
	err := c.collect(k, request{cmdMultiGet}.strings(k.keys), func(r reader) (err error) {
		for i := range vals {
			if vals[i], err = r.bytes("value", maxReply); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return vals, nil
}

// getEach gets values one by one, from a server that has no request for several.
func (c *Client) getEach(ctx context.Context, keys []string, vals [][]byte) (all [][]byte, err error) {
	for i, key := range keys {
		if vals[i], err = c.Get(ctx, key); err != nil {
			return nil, err
		}
	}
	return vals, nil
}

// setEach sets values one by one.
func (c *Client) setEach(ctx context.Context, keys []string, vals [][]byte) error {
	for i, key := range keys {
		if err := c.Set(ctx, key, vals[i]); err != nil {
			return err
		}
	}
	return nil
}

// MultiSet implements store.Batch. It returns when the request is sent, as Set does.
func (c *Client) MultiSet(ctx context.Context, keys []string, vals [][]byte) error {
	store.Pairs(keys, vals)
	k := c.start(ctx, "multi_set", wired(keys)...)
	defer k.Stop()
	if err := fits(k.name, k.keys, vals...); err != nil || len(keys) == 0 {
		return err
	}
	if c.dialer.dialect == Torch113 {
		return c.setEach(ctx, keys, vals)
	}
	q := request{cmdMultiSet}.int64(int64(len(keys)))
	for i, key := range k.keys {
		q = q.string(key).bytes(vals[i])
	}
	return c.do(k, q, nil)
}

// Wait implements store.Waiter.
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	k := c.start(ctx, "wait", wired(keys)...)
	defer k.Stop()
	if err := fits(k.name, k.keys); err != nil || len(keys) == 0 {
		return err
	}
	return c.await(k, nil)
}

// Check implements store.Waiter.
func (c *Client) Check(ctx context.Context, keys ...string) (ready bool, err error) {
	k := c.start(ctx, "check", wired(keys)...)
	defer k.Stop()
	if err := fits(k.name, k.keys); err != nil || len(keys) == 0 {
		return err == nil, err
	}
	err = c.do(k, request{cmdCheck}.strings(k.keys), func(r reader) error {
		reply, err := r.byte()
		if err == nil && reply > checkNotReady {
			err = fmt.Errorf("reply %d to check", reply)
		}
		ready = reply == checkReady
		return err
	})
	return ready && err == nil, err
}

// QueuePop implements store.Queue. To block is to wait for the key and then to pop; if another client was faster, it
// waits again.
func (c *Client) QueuePop(ctx context.Context, key string, block bool) ([]byte, error) {
	k := c.start(ctx, "queue_pop", userPrefix+key)
	defer k.Stop()
	if err := errors.Join(c.has(k.name, cmdQueuePop), fits(k.name, k.keys)); err != nil {
		return nil, err
	}
	q := request{cmdQueuePop}.string(k.keys[0])
	var n int64
	var val []byte
	read := func(r reader) (err error) {
		if n, err = r.int64(); err == nil && n > 0 {
			val, err = r.bytes("value", maxReply)
		}
		return err
	}
	pop := func() error { return c.do(k, q, read) }
	if block {
		pop = func() error { return c.await(k, func(x *conn) error { return x.exchange(k, q, read) }) }
	}
	for {
		err := pop()
		switch {
		case err != nil:
			return nil, err
		case n > 0:
			return val, nil
		case !block:
			return nil, fmt.Errorf("tcpstore: pop %q from %s: %w", key, c.dialer.addr, store.ErrQueueEmpty)
		}
	}
}

// ListKeys implements store.Lister. Servers answer it from PyTorch 2.10 on; older ones close the connection.
func (c *Client) ListKeys(ctx context.Context) ([]string, error) {
	k := c.start(ctx, "list_keys")
	defer k.Stop()
	if err := c.has(k.name, cmdListKeys); err != nil {
		return nil, err
	}
	var keys []string
	err := c.do(k, request{cmdListKeys}, func(r reader) error {
		n, err := r.int64()
		if err == nil && (n < 0 || n > maxListed) {
			return fmt.Errorf("reply of %d keys to list_keys", n)
		}
		for range n {
			key, err := r.bytes("key", store.MaxKey)
			if err != nil {
				return err
			}
			if user, ok := strings.CutPrefix(string(key), userPrefix); ok {
				keys = append(keys, user)
			}
		}
		return err
	})
	slices.Sort(keys)
	return keys, err
}
