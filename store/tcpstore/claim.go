package tcpstore

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/colligo-go/colligo/store"
)

// call is one call of the client's user: what errors need to know.
type call struct {
	*store.Bound
	name string
	keys []string // as the server knows them
}

func (c *Client) start(ctx context.Context, name string, keys ...string) *call {
	return &call{c.limit.Start(ctx), name, keys}
}

// ErrNoConnection is among the causes of an error where a further connection could not be made, which says nothing about the
// others.
var ErrNoConnection = errors.New("no further connection")

// fault turns what a connection reports into the call's error. One that is neither the context's end, nor the
// client's, nor ErrNoConnection means that the server is lost, and ends the client.
func (c *Client) fault(k *call, err error) error {
	switch {
	case err == nil:
		return nil
	case k.Over():
		return fmt.Errorf("tcpstore: %w", k.Fail(k.keys...))
	case errors.Is(err, ErrNoConnection):
		return fmt.Errorf("tcpstore: %s%s: %w", k.name, named(k.keys), err)
	case c.over() == nil:
		c.fail(lost(c.dialer.addr, err))
	}
	return fmt.Errorf("tcpstore: %s%s: %w", k.name, named(k.keys), c.over())
}

// ErrLost is among the causes of errors of a client whose server is gone or cannot be reached any more.
var ErrLost = errors.New("is lost")

// lost names the server, and where it hung up, says so in the words that PyTorch users know.
func lost(addr string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || refusedOrReset(err) {
		err = fmt.Errorf("failed to recv, got 0 bytes. Connection was likely closed. "+
			"Did the remote server shutdown or crash?: %w", err)
	}
	return fmt.Errorf("server %s %w: %w", addr, ErrLost, err)
}

func named(keys []string) string {
	switch len(keys) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" %q", keys[0])
	}
	return fmt.Sprintf(" %q and %d more", keys[0], len(keys)-1)
}

// do sends q over the first connection and lets read take the reply.
func (c *Client) do(k *call, q request, read func(reader) error) error {
	x, err := c.take(k)
	if err == nil {
		err = x.exchange(k, q, read)
		c.release(x)
	}
	return c.fault(k, err)
}

// collect sends q, which asks for keys that a wait has found, over the first connection and lets read take the reply.
func (c *Client) collect(k *call, q request, read func(reader) error) error {
	x, err := c.take(k)
	if err == nil {
		err = x.collect(k, q, read)
		c.release(x)
	}
	return c.fault(k, err)
}

// take claims the first connection. A wait that holds it is asked to move.
func (c *Client) take(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	c.wanted++
	if c.yield != nil {
		c.yield()
	}
	c.mu.Unlock()
	var err error
	select {
	case c.main <- struct{}{}:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted--
	if err != nil {
		return nil, err
	}
	if c.first == nil && c.end == nil {
		err = c.renew(ctx)
	}
	if err == nil {
		err = c.end
	}
	if err != nil {
		<-c.main
		return nil, err
	}
	return c.first, nil
}

// renew dials anew in place of a first connection that a context cut. mu is held, but not while dialling.
func (c *Client) renew(ctx context.Context) error {
	c.mu.Unlock()
	x, err := c.dialer.once(ctx)
	c.mu.Lock()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoConnection, err)
	}
	if c.end != nil {
		return errors.Join(c.end, x.nc.Close())
	}
	c.first = x
	return nil
}

// settled calls free once a connection that a call has taken is free again. That is at once, unless the call has left an exchange
// behind. An error of that exchange ends the client, as one that a call hears does.
func (c *Client) settled(x *conn, free func()) {
	if x.settling == nil {
		free()
		return
	}
	go func() {
		if err := <-x.settling; err != nil && err != errStopped {
			c.fail(lost(c.dialer.addr, err))
		}
		x.settling = nil
		free()
	}()
}

// release gives the first connection back.
func (c *Client) release(x *conn) { c.settled(x, func() { c.put(x) }) }

func (c *Client) put(x *conn) {
	c.mu.Lock()
	if x.cut.Load() {
		c.first = nil
	}
	c.yield = nil
	c.mu.Unlock()
	<-c.main
}
