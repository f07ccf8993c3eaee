package tcpstore

import (
	"context"
	"errors"
	"fmt"
)

// await blocks until the server has seen every key of k. If the request then is not nil, it is made afterwards over the same
// connection, before anybody else has it.
func (c *Client) await(k *call, then func(*conn) error) error {
	q := request{cmdWait}.strings(k.keys)
	// A wait that cannot be cancelled holds its connection to the end.
	_, cancels := c.dialer.dialect.code(cmdCancelWait)
	moved := !cancels
	var err error
	if cancels {
		moved, err = c.awaitFirst(k, q, then)
	}
	if moved {
		err = c.awaitSpare(k, q, then)
	}
	return c.fault(k, err)
}

// awaitFirst waits on the first connection until somebody else wants it: then moved is true.
func (c *Client) awaitFirst(k *call, q request, then func(*conn) error) (moved bool, err error) {
	x, err := c.take(k)
	if err != nil {
		return false, err
	}
	defer c.release(x)
	ctx, yield := context.WithCancel(k)
	defer yield()
	c.mu.Lock()
	c.yield = yield
	if c.wanted > 0 {
		yield()
	}
	c.mu.Unlock()
	err = finish(k, x, x.wait(k, ctx, q), then)
	return err == errStopped && k.Err() == nil, err
}

// awaitSpare waits on a connection that only waits use.
func (c *Client) awaitSpare(k *call, q request, then func(*conn) error) error {
	x, err := c.takeSpare(k)
	if err != nil {
		return err
	}
	defer c.releaseSpare(x)
	return finish(k, x, x.wait(k, k, q), then)
}

// finish runs then after a wait that came true.
func finish(k *call, x *conn, err error, then func(*conn) error) error {
	if err == nil && then != nil {
		err = then(x)
	}
	return err
}

// takeSpare takes an idle connection, or dials one.
func (c *Client) takeSpare(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	if n := len(c.spare); n > 0 && c.end == nil {
		x := c.spare[n-1]
		c.spare = c.spare[:n-1]
		c.waiting[x] = true
		c.mu.Unlock()
		return x, nil
	}
	c.mu.Unlock()
	x, err := c.dialer.once(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoConnection, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		return nil, errors.Join(c.end, x.nc.Close())
	}
	c.waiting[x] = true
	return x, nil
}

func (c *Client) releaseSpare(x *conn) { c.settled(x, func() { c.putSpare(x) }) }

func (c *Client) putSpare(x *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, x)
	if c.end == nil && !x.cut.Load() {
		c.spare = append(c.spare, x)
	}
}
