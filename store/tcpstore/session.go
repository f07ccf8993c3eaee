package tcpstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/colligo-go/colligo/store"
)

// session is the server's side of one connection. Its goroutine reads and answers. Another goroutine writes only the
// byte that ends a wait, because the session's own must go on reading: the client may cancel.
type session struct {
	server *Server
	nc     net.Conn
	in     reader
	watch  *store.Watch      // of the last wait, until the next request
	stands map[string][]byte // for this client, with the values that it wrote; nil before the first

	out outbox
	wmu sync.Mutex // held while writing; a writer takes what is in out, so replies keep their order
}

// run reads requests until the connection ends. The client's closing it between requests is no error.
func (c *session) run() error {
	for first := true; ; first = false {
		cmd, err := c.in.ReadByte()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = c.request(cmd, first)
		}
		if err == nil {
			err = c.flush()
		}
		if err != nil {
			return err
		}
	}
}

// request answers one request. A connection should begin with cmdValidate; as PyTorch's server does, this one lets any
// well-formed command pass as the first, and no cmdValidate later.
func (c *session) request(cmd byte, first bool) error {
	code := cmd
	cmd, known := c.server.dialect.command(code)
	switch {
	case !known:
		return fmt.Errorf("command %d, which PyTorch 1.13 does not have", code)
	case cmd == cmdValidate && first:
		return c.validate()
	case cmd >= commands && first:
		return fmt.Errorf("not a store client: its first byte is %#02x (%q)%s", cmd, cmd, guess(cmd))
	case cmd == cmdValidate || cmd >= commands:
		return fmt.Errorf("unknown command %d", cmd)
	}
	c.settle(cmd)
	h := handlers[cmd]
	if err := h.answer(c); err != nil {
		return fmt.Errorf("%s: %w", h.name, err)
	}
	return nil
}

// guess adds what a stranger's first byte gives away.
func guess(first byte) string {
	switch first {
	case 0x16:
		return ", perhaps TLS where this server speaks plain TCP"
	case 'G', 'P', 'H', 'O':
		return ", perhaps HTTP"
	}
	return ""
}

func (c *session) validate() error {
	got, err := c.in.uint32()
	if err == nil && got != magic {
		err = fmt.Errorf("not a store client: magic %#08x in place of %#08x", got, uint32(magic))
	}
	return err
}

// settle ends the last wait before the next request. A pop takes the value that the wait was told of; anything else leaves
// it to the next waiting client.
func (c *session) settle(cmd byte) {
	switch {
	case c.watch == nil:
	case cmd == cmdQueuePop:
		c.watch.Claim()
	default:
		c.watch.Cancel()
	}
	c.watch = nil
}

// leave frees what the connection held, and tells of the keys that stand for the client.
func (c *session) leave() {
	if c.watch != nil {
		c.watch.Cancel()
	}
	for key, value := range c.stands {
		if now, there := c.table().Get(key); there && bytes.Equal(now, value) && !c.server.isClosed() {
			c.server.presence.Ended(c.table(), key, value)
		}
	}
}

// wrote notes what the client has written to a key that stands for it.
func (c *session) wrote(key string, value []byte) {
	if p := c.server.presence; p == nil || !p.Stands(key) {
		return
	}
	if c.stands == nil {
		c.stands = map[string][]byte{}
	}
	c.stands[key] = value
}

// flush writes the replies that are due.
func (c *session) flush() error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	due := c.out.take()
	_, err := due.WriteTo(c.nc)
	return err
}

// released answers a wait that has come true. It is called with the table locked, hence the goroutine.
func (c *session) released() {
	c.out.byte(waitStopped)
	c.server.running.Go(func() {
		if err := c.flush(); err != nil && !errors.Is(err, net.ErrClosed) {
			// Without its answer the client waits in vain; the reading goroutine sees the closed connection.
			_ = c.nc.Close()
		}
	})
}
