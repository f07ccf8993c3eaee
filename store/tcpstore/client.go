package tcpstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/colligo-go/colligo/store"
)

// ClientOptions sets up a client. The zero value is a plain client that joins nothing.
type ClientOptions struct {
	// WorldSize, if positive, makes Dial count this worker in: it adds 1 to "init/". PyTorch's rank 0 waits in its
	// constructor until all ranks have done so, once each.
	WorldSize int
	// WaitForWorkers makes Dial return only when WorldSize workers have been counted. It is for the rank that runs the
	// server.
	WaitForWorkers bool
	// NoPing leaves out the ping after connecting, which servers before PyTorch 2.5 do not know.
	NoPing bool
	// Dialect is the server's. Torch113 has neither a greeting nor a ping.
	Dialect Dialect
	// TLS, if set, must match the server's. ServerName defaults to the host of the address.
	TLS *tls.Config
	// ConnectTimeout bounds Dial, the wait for workers included, whatever deadline its context has. Zero means the
	// store's timeout if the context has no deadline, as for every call.
	ConnectTimeout time.Duration
	// Failed, if set, is told why Dial has not connected yet, whenever that changes. It is called by Dial's goroutine and returns
	// soon.
	Failed func(error)
	// Timeout is the store's first timeout. Zero means store.DefaultTimeout; SetTimeout(0) means for ever.
	Timeout time.Duration
}

// Client is a store behind a connection to a server. See the package comment for how many connections it has.
type Client struct {
	dialer dialer
	limit  store.Limit
	main   chan struct{} // holds one token while the first connection is in use

	mu      sync.Mutex
	first   *conn          // replaced after a context cut it
	spare   []*conn        // idle connections of earlier waits
	waiting map[*conn]bool // connections that a wait has taken out of spare
	wanted  int            // calls that want the first connection
	yield   func()         // asks the wait on the first connection to move; nil while there is none
	end     error          // why the client is of no more use
}

var _ store.Store = (*Client)(nil)

// Dial connects to the server at addr, "host:port". It keeps trying while the name is unknown, the connection refused or
// reset, for the server may start later than its clients.
func Dial(ctx context.Context, addr string, opts ClientOptions) (*Client, error) {
	c := &Client{
		dialer:  dialer{addr: addr, ping: !opts.NoPing, dialect: opts.Dialect, failed: opts.Failed, patience: patience},
		main:    make(chan struct{}, 1),
		waiting: make(map[*conn]bool),
	}
	c.limit.Set(store.DefaultTimeout)
	if opts.Timeout != 0 {
		c.limit.Set(opts.Timeout)
	}
	if opts.TLS != nil {
		c.dialer.tls = clientTLS(opts.TLS, addr)
	}
	if opts.ConnectTimeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.ConnectTimeout)
		defer cancel()
	}
	b := c.limit.Start(ctx)
	defer b.Stop()
	var err error
	if c.first, err = c.dialer.retry(b); err != nil {
		return nil, err
	}
	c.dialer.failed = nil
	if err := c.join(b, opts); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func clientTLS(given *tls.Config, addr string) *tls.Config {
	conf := given.Clone()
	if conf.ServerName == "" {
		conf.ServerName = hostOf(addr)
	}
	return conf
}

// pollInterval is how often the server's rank looks whether all workers are there.
const pollInterval = 10 * time.Millisecond

// join counts this worker in and, on request, waits for the others.
func (c *Client) join(b *store.Bound, opts ClientOptions) error {
	if opts.WorldSize <= 0 {
		return nil
	}
	start := time.Now()
	joined, err := c.add(b, workersKey, 1)
	for err == nil && opts.WaitForWorkers && joined < int64(opts.WorldSize) {
		sleep(b, pollInterval)
		var text []byte
		if text, err = c.get(b, workersKey); err == nil {
			joined, err = strconv.ParseInt(string(text), 10, 64)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("tcpstore: timed out after %.3g seconds waiting for clients. %d/%d clients joined: %w",
			time.Since(start).Seconds(), joined, opts.WorldSize, store.ErrTimeout)
	}
	return err
}

// Addr is the server's address as it was given to Dial.
func (c *Client) Addr() string { return c.dialer.addr }

// SetTimeout implements store.Session.
func (c *Client) SetTimeout(d time.Duration) { c.limit.Set(d) }

// Timeout implements store.Session.
func (c *Client) Timeout() time.Duration { return c.limit.Get() }

// Close implements store.Session. Requests that were sent before still reach the server.
func (c *Client) Close() error {
	c.fail(store.ErrClosed)
	return nil
}

// fail makes every call under way and every later one return err, unless there is an earlier reason. It closes all
// connections.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		return
	}
	c.end = err
	// An error of the closing of a socket concerns nobody any more.
	if c.first != nil {
		_ = c.first.nc.Close()
	}
	for _, x := range c.spare {
		_ = x.nc.Close()
	}
	for x := range c.waiting {
		_ = x.nc.Close()
	}
	c.spare = nil
}

// over returns why the client is of no more use, or nil.
func (c *Client) over() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end
}
