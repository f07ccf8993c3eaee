package tcpstore

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/colligo-go/colligo/store"
)

// The pauses between attempts to connect, as PyTorch has them. Each is half as long again as the one before, up to a minute.
// They are off by up to half at random, so that ten thousand ranks do not come back at the same time.
const (
	firstInterval = 500 * time.Millisecond
	lastInterval  = time.Minute
)

// backoff yields the pauses.
type backoff struct{ interval time.Duration }

func (b *backoff) next() time.Duration {
	if b.interval == 0 {
		b.interval = firstInterval
	}
	pause := time.Duration(float64(b.interval) * (0.5 + rand.Float64()))
	b.interval = min(b.interval*3/2, lastInterval)
	return min(pause, lastInterval)
}

// dialer makes connections to one server.
type dialer struct {
	addr string
	tls  *tls.Config
	ping bool
	// dialect is that of the server.
	dialect  Dialect
	failed   func(error)   // may be nil
	patience time.Duration // of callers whose contexts have ended
}

// tell says why there is no connection yet.
func (d *dialer) tell(err error) {
	if d.failed != nil {
		d.failed(err)
	}
}

// errNoStore is why a connection that was made is of no use, as far as one can tell.
var errNoStore = errors.New("what listens there accepted the connection but does not answer as a store: it is something else, or very busy")

// keepAlive finds a host that vanished without a word within about 45 seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 6}

// once connects and greets.
func (d *dialer) once(ctx context.Context) (*conn, error) {
	nd := net.Dialer{KeepAliveConfig: keepAlive}
	nc, err := nd.DialContext(ctx, "tcp", d.addr)
	if err != nil {
		return nil, err
	}
	if d.tls != nil {
		secure := tls.Client(nc, d.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			if hungUp(err) {
				err = fmt.Errorf("the server closed the connection: it speaks no TLS, or is no store: %w", err)
			}
			return nil, errors.Join(fmt.Errorf("tls handshake: %w", err), nc.Close())
		}
		nc = secure
	}
	c := newConn(nc, d.dialect, d.patience)
	if err := d.greet(ctx, c); err != nil {
		_ = nc.Close()
		return nil, err
	}
	return c, nil
}

// greet validates, in a write of its own because PyTorch's server parses the first read once only, and pings.
func (d *dialer) greet(ctx context.Context, c *conn) error {
	if d.dialect != Torch2 {
		return nil
	}
	if err := c.exchange(ctx, request{cmdValidate}.uint32(magic), nil); err != nil {
		return fmt.Errorf("validate: %w", err)
	}
	if !d.ping {
		return nil
	}
	d.tell(errNoStore) // until it answers
	nonce := uint32(os.Getpid())
	var got uint32
	err := c.exchange(ctx, request{cmdPing}.uint32(nonce), func(r reader) (err error) {
		got, err = r.uint32()
		return err
	})
	switch {
	case hungUp(err):
		return fmt.Errorf("ping: the server closed the connection: it speaks TLS, is no store, or is one of PyTorch before 2.5, for which "+
			"NoPing is to be set: %w", err)
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("ping: %w: %w", errNoStore, err)
	case err != nil:
		return fmt.Errorf("ping: %w", err)
	case got != nonce:
		return fmt.Errorf("ping: what listens there is no store: it answered %q", binary.LittleEndian.AppendUint32(nil, got))
	}
	return nil
}

// retry connects until it succeeds, ctx ends, or there is an error that time does not heal.
func (d *dialer) retry(ctx *store.Bound) (*conn, error) {
	start, last := time.Now(), error(nil)
	for wait := (backoff{}); ; {
		c, err := d.once(ctx)
		if err == nil {
			return c, nil
		}
		if ctx.Err() == nil || last == nil { // an attempt that ctx cut tells less than one before it
			last = err
		}
		if ctx.Err() == nil {
			d.tell(err)
			if !heals(err) {
				return nil, fmt.Errorf("tcpstore: the client socket has failed to connect to any network address of %s: %w",
					d.target(), err)
			}
			sleep(ctx, wait.next())
		}
		if ctx.Err() != nil {
			return nil, d.gaveUp(ctx, time.Since(start), last)
		}
	}
}

// gaveUp is the error after ctx has ended; last is why the last attempt failed.
func (d *dialer) gaveUp(ctx context.Context, took time.Duration, last error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("tcpstore: connect to %s: %w, last attempt: %w", d.target(), context.Cause(ctx), last)
	}
	return fmt.Errorf("tcpstore: the client socket has timed out after %dms while trying to connect to %s: "+
		"%w, last attempt: %w", took.Milliseconds(), d.target(), store.ErrTimeout, last)
}

// target is the address as PyTorch spells it.
func (d *dialer) target() string {
	host, port, err := net.SplitHostPort(d.addr)
	if err != nil {
		return d.addr
	}
	return fmt.Sprintf("(%s, %s)", host, port)
}

// hostOf is the host of "host:port", or all of addr if there is no port.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}

// hungUp reports whether the other side has ended the connection without a word. If it leaves something unread, that is a reset.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || refusedOrReset(err)
}

// heals reports whether a server that is still starting explains err.
func heals(err error) bool {
	var dns *net.DNSError
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	return ended || errors.As(err, &dns) || isTimeout(err) || refusedOrReset(err)
}

// sleep pauses until d has passed or ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
