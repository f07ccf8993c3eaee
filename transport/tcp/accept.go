package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// accept lets peers in until the group has formed or failed.
func (f *forming) accept(l net.Listener) {
	stop := context.AfterFunc(f.ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			f.wg.Go(func() { f.admit(conn) })
		case errors.Is(err, net.ErrClosed):
			return
		case exhausted(err):
			f.cancel(fmt.Errorf("accepting connections: %w", err))
			return
		default:
			f.log("accept", "err", err)
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// exhausted reports whether this host has run out of something that every connection needs, such as descriptors. To try again
// would keep all other ranks waiting until their time is up.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// admit introduces one dialer. Strangers are dropped; a peer that belongs to the group but has other terms ends Open.
func (f *forming) admit(conn net.Conn) {
	from := conn.RemoteAddr()
	conn, err := f.limited(conn, f.introduceAccepted)
	var pe *transport.PeerError
	switch {
	case err == nil:
		return
	case errors.As(err, &pe):
		f.cancel(err)
	case f.ctx.Err() == nil:
		f.log("connection dropped", "from", from, "err", err)
	}
	conn.Close()
}

// limited runs an introduction over a connection that fails when the context ends. The introduction may wrap the
// connection. If it went well the connection is placed and the group's, and the context has no hold on it any more.
func (f *forming) limited(conn net.Conn, introduce func(net.Conn) (*guest, error)) (net.Conn, error) {
	stop := context.AfterFunc(f.ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	g, err := introduce(conn)
	if !stop() {
		return conn, context.Cause(f.ctx)
	}
	if err != nil {
		return conn, err
	}
	if err := g.settle(); err != nil {
		return conn, err
	}
	f.begin(g.peer, g.purpose, g.conn)
	return g.conn, nil
}

// allow gives reads and writes of a connection so much time, unless the context has ended. The context's hold on the
// connection is a deadline, too. It may have come already, and must not be undone.
func (f *forming) allow(conn net.Conn, d time.Duration) error {
	conn.SetDeadline(time.Now().Add(d)) // a connection that takes none has failed already
	return context.Cause(f.ctx)
}

// guest is a peer's connection after the introduction.
type guest struct {
	peer    int
	purpose uint16
	conn    net.Conn
	settle  func() error // places it, and tells the peer
}

// introduceAccepted runs the acceptor's side of TLS, handshake and terms.
func (f *forming) introduceAccepted(conn net.Conn) (*guest, error) {
	c := &f.m.c
	if c.TLS != nil {
		t := tls.Server(conn, c.TLS)
		if err := within(f.ctx, t.HandshakeContext); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		conn = t
	}
	peer, purpose, err := transport.Admit(f.ctx, conn, c)
	if err != nil {
		return nil, err
	}
	if peer < c.Rank {
		return nil, &transport.PeerError{Peer: peer, Err: fmt.Errorf("dialed rank %d: the higher rank dials", c.Rank)}
	}
	if err := f.allow(conn, transport.HandshakeTime); err != nil {
		return nil, err
	}
	theirs, err := readTerms(conn)
	if err != nil {
		return nil, err
	}
	mine := newTerms(c)
	mine.verdict = welcome
	if err := mine.differ(theirs); err != nil {
		return nil, errors.Join(&transport.PeerError{Peer: peer, Err: err}, mine.write(conn))
	}
	f.note(theirs)
	return &guest{peer, purpose, conn, func() error { return f.answer(peer, purpose, conn, mine) }}, nil
}

// answer places a connection and gives the dialer the verdict.
func (f *forming) answer(peer int, purpose uint16, conn net.Conn, mine terms) error {
	if !f.place(peer, purpose, conn) {
		mine.verdict = duplicate
		return errors.Join(fmt.Errorf("rank %d has dialed before: two processes of one rank?", peer), mine.write(conn))
	}
	if err := mine.write(conn); err != nil {
		return &transport.PeerError{Peer: peer, Err: fmt.Errorf("%w: while it joined: %w", transport.ErrLost, err)}
	}
	return nil
}

// within runs f with the handshake's limit of time.
func within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, transport.HandshakeTime)
	defer cancel()
	return f(ctx)
}
