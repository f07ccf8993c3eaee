package tcpstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// conn is the client's side of one connection. One goroutine uses it at a time.
type conn struct {
	nc       net.Conn
	in       reader
	dialect  Dialect
	cut      atomic.Bool   // a context ended in the middle of an exchange: replies no longer match requests
	patience time.Duration // of a caller whose context has ended
	settling chan error    // if not nil, an exchange goes on whose caller has left, and its result will come here
}

// errStopped is a wait that ended because its context did. The connection is as good as before.
var errStopped = errors.New("wait stopped")

// How long the server may take for an answer that it owes a caller whose context has ended.
const (
	patience  = 200 * time.Millisecond // before the caller leaves, and the exchange goes on without
	drainTime = 5 * time.Second        // before the connection is closed
)

func newConn(nc net.Conn, d Dialect, patience time.Duration) *conn {
	return &conn{nc: nc, in: newReader(nc), dialect: d, patience: patience}
}

// write sends a request, whose first byte is a command. Calls have refused commands that the dialect lacks.
func (c *conn) write(q request) error {
	cmd := q[0]
	q[0], _ = c.dialect.code(cmd)
	_, err := c.nc.Write(q)
	q[0] = cmd // the same request may be sent over another connection
	return err
}

// on runs f when ctx ends before done is called. done reports whether f ran, and returns after it.
func on(ctx context.Context, f func()) (done func() bool) {
	ran := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ran)
		f()
	})
	return func() bool {
		if stop() {
			return false
		}
		<-ran
		return true
	}
}

// exchange sends q and lets read take the reply; read is nil if there is none. When ctx ends first, it closes the
// connection, because the reply would answer the next request.
func (c *conn) exchange(ctx context.Context, q request, read func(reader) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done := on(ctx, c.sever)
	err := c.write(q)
	if err == nil && read != nil {
		err = inside(read(c.in))
	}
	if done() && err != nil {
		return context.Cause(ctx)
	}
	return err
}

// settle returns the result of f, the rest of an exchange. After ctx has ended it waits as long as patience says, and then returns the
// cause. Then f goes on to use the connection, and settling tells when that is free.
func (c *conn) settle(ctx context.Context, f func() error) error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result:
		return err
	case <-time.After(c.patience):
		c.settling = result
		return context.Cause(ctx)
	}
}

// collect is an exchange whose reply the server has ready. When ctx ends first, the reply may still come within drainTime before the
// connection is closed, for the server would take this client for dead. The caller may have left then: after an error it does not look at
// what read sets.
func (c *conn) collect(ctx context.Context, q request, read func(reader) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.settle(ctx, func() error {
		// If the deadline cannot be set, the connection is gone and the read says so.
		done := on(ctx, func() { _ = c.nc.SetDeadline(time.Now().Add(drainTime)) })
		err := c.write(q)
		if err == nil {
			err = inside(read(c.in))
		}
		switch {
		case !done():
			return err
		case err == nil:
			return c.nc.SetDeadline(time.Time{})
		}
		return c.silent(err)
	})
}

func (c *conn) sever() {
	c.cut.Store(true)
	// The goroutine that reads or writes gets the error.
	_ = c.nc.Close()
}

// wait sends q, a request that the server answers with waitStopped in its own time. When yield ends first, it cancels the wait and
// returns errStopped, or nil if the answer crossed the cancellation. Yield ends with ctx, the caller's, or before it. When ctx ends, the
// server may still have to confirm.
func (c *conn) wait(ctx, yield context.Context, q request) error {
	if yield.Err() != nil {
		return errStopped
	}
	if err := c.ask(ctx, q); err != nil || c.cut.Load() {
		if ctx.Err() != nil {
			return errStopped
		}
		return err
	}
	// If the deadline cannot be set, the connection is gone and the read says so.
	done := on(yield, func() { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) })
	reply, err := c.in.byte()
	switch {
	case !done():
		return stopped(reply, err)
	case err == nil:
		if err := c.nc.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
		return stopped(reply, nil)
	case isTimeout(err):
		if err = c.settle(ctx, c.cancelWait); c.settling != nil {
			return errStopped
		}
	}
	return err
}

// prompt is a size that an empty socket takes without blocking.
const prompt = 8 << 10

// ask sends a wait. Only a long one needs ctx, whose end would cost the connection.
func (c *conn) ask(ctx context.Context, q request) error {
	if len(q) > prompt {
		return c.exchange(ctx, q, nil)
	}
	return c.write(q)
}

// cancelWait ends a wait that the client gave up, and reads what the server owes: waitCanceled, after waitStopped if
// the wait came true just before.
func (c *conn) cancelWait() error {
	if _, ok := c.dialect.code(cmdCancelWait); !ok { // the wait goes on at the server until the connection ends
		c.sever()
		return errStopped
	}
	if err := c.nc.SetDeadline(time.Now().Add(drainTime)); err != nil {
		return err
	}
	if err := c.write(request{cmdCancelWait}); err != nil {
		return c.silent(err)
	}
	result := errStopped
	reply, err := c.in.byte()
	if err == nil && reply == waitStopped {
		result = nil
		reply, err = c.in.byte()
	}
	if err == nil && reply != waitCanceled {
		err = fmt.Errorf("reply %d to cancel_wait", reply)
	}
	if err != nil {
		return c.silent(err)
	}
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		return err
	}
	return result
}

// silent gives up a connection whose server does not answer within drainTime. It is no error: the caller has left, or goes on over
// another connection.
func (c *conn) silent(err error) error {
	if isTimeout(err) {
		c.sever()
		return errStopped
	}
	return err
}

func stopped(reply byte, err error) error {
	if err == nil && reply != waitStopped {
		err = fmt.Errorf("reply %d to wait", reply)
	}
	return err
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
