package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/colligo-go/colligo/transport"
)

const (
	dialers   = 64 // peers dialed at a time
	dialTime  = 5 * time.Second
	firstWait = 5 * time.Millisecond
	maxWait   = time.Second
)

// reach dials a lower rank until every connection to it is there, or ctx has ended, or trying again is of no use. It looks up the
// peer's addresses once, and anew after a failure.
func (f *forming) reach(peer int, turns chan struct{}) {
	wait := firstWait
	var addrs []string
	for purpose := transport.PurposeControl; int(purpose) <= f.m.c.Lanes; {
		turns <- struct{}{}
		err := f.dialAny(peer, purpose, &addrs)
		<-turns
		if err == nil {
			purpose, wait = purpose+1, firstWait
			continue
		}
		addrs = nil
		if !f.ended() { // else it says no more than that
			f.mu.Lock()
			f.why[peer] = err
			f.mu.Unlock()
		}
		var pe *transport.PeerError
		if errors.As(err, &pe) {
			f.cancel(err)
		} else if exhausted(err) {
			f.cancel(fmt.Errorf("connecting to rank %d: %w", peer, err))
		}
		select {
		case <-f.ctx.Done():
			return
		case <-time.After(wait):
			wait = min(2*wait, maxWait)
		}
	}
}

// ended reports whether ctx has ended, or is about to: a connection's own clock may be the first to tell of the same deadline.
func (f *forming) ended() bool {
	d, ok := f.ctx.Deadline()
	return f.ctx.Err() != nil || ok && !time.Now().Before(d)
}

// dialAny tries the peer's addresses in turn, which it looks up if there are none yet. The address that works is the first at the next
// call. A *PeerError of one is the result only if no other works.
func (f *forming) dialAny(peer int, purpose uint16, addrs *[]string) error {
	if *addrs == nil {
		var err error
		if *addrs, err = lookUp(f.ctx, &f.m.c, peer); err != nil {
			return err
		}
	}
	var errs []error
	refused := true
	for i, addr := range *addrs {
		err := f.dial(addr, peer, purpose)
		if err == nil {
			(*addrs)[0], (*addrs)[i] = addr, (*addrs)[0]
			return nil
		}
		errs = append(errs, err)
		refused = refused && errors.Is(err, syscall.ECONNREFUSED)
	}
	if refused { // a rank listens from before it publishes its addresses until it is linked with all
		return &transport.PeerError{Peer: peer, Err: fmt.Errorf("%w: it does not listen any more: %w", transport.ErrLost, errs[0])}
	}
	var pe *transport.PeerError
	for _, err := range errs {
		if errors.As(err, &pe) {
			return err
		}
	}
	return errs[0]
}

// dial makes one connection to one address.
func (f *forming) dial(addr string, peer int, purpose uint16) error {
	d := net.Dialer{Timeout: dialTime}
	conn, err := d.DialContext(f.ctx, "tcp", addr)
	if err != nil {
		return err
	}
	conn, err = f.limited(conn, func(conn net.Conn) (*guest, error) { return f.introduceDialed(conn, addr, peer, purpose) })
	if err != nil {
		conn.Close()
	}
	return err
}

// introduceDialed runs the dialer's side of TLS, handshake and terms.
func (f *forming) introduceDialed(conn net.Conn, addr string, peer int, purpose uint16) (*guest, error) {
	c := &f.m.c
	if c.TLS != nil {
		t := tls.Client(conn, clientTLS(c.TLS, addr))
		if err := within(f.ctx, t.HandshakeContext); err != nil {
			return nil, fmt.Errorf("tls with %s: %w", addr, err)
		}
		conn = t
	}
	if err := transport.Greet(f.ctx, conn, c, peer, purpose); err != nil {
		return nil, err
	}
	if err := f.allow(conn, transport.HandshakeTime); err != nil {
		return nil, err
	}
	mine := newTerms(c)
	if err := mine.write(conn); err != nil {
		return nil, err
	}
	theirs, err := readTerms(conn)
	if err != nil {
		return nil, err
	}
	if err := mine.differ(theirs); err != nil {
		return nil, &transport.PeerError{Peer: peer, Err: err}
	}
	f.note(theirs)
	return &guest{peer, purpose, conn, func() error {
		if theirs.verdict != welcome || !f.place(peer, purpose, conn) {
			return &transport.PeerError{Peer: peer, Err: fmt.Errorf("is linked with rank %d already: two processes of one rank?", c.Rank)}
		}
		return nil
	}}, nil
}

// clientTLS names the server, as crypto/tls wants, by the address dialed if the configuration does not.
func clientTLS(c *tls.Config, addr string) *tls.Config {
	if c.ServerName != "" || c.InsecureSkipVerify {
		return c
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	c = c.Clone()
	c.ServerName, _, _ = strings.Cut(host, "%")
	return c
}
