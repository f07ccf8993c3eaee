package tcpstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/colligo-go/colligo/store"
)

// ServerOptions sets up a server. The zero value serves plain TCP and logs nothing.
type ServerOptions struct {
	// TLS, if set, makes clients speak TLS. PyTorch ranks cannot. The server copies it.
	TLS *tls.Config
	// Dialect is the clients'.
	Dialect Dialect
	// Listener, if set, is served in place of a new one, and is the server's to close.
	Listener net.Listener
	// Presence, if set, has the server tell when a client ends.
	Presence *Presence
	// Logger takes a line for each connection that ends otherwise than by the client's closing it.
	Logger *slog.Logger
}

// Presence says which keys stand for the client that writes them, and what becomes of them when it ends. Keys are as they travel,
// with a leading slash. PyTorch's stores have no twin.
type Presence struct {
	// Stands reports whether a key stands for the client that writes it by set or compare_set.
	Stands func(key string) bool
	// Ended is called when a client's connection has ended, for each key that stands for it and still has the value that it wrote.
	// It may change the table, which has all keys of the server.
	Ended func(t *store.Table, key string, value []byte)
}

// Server holds the keys of one job.
type Server struct {
	table    *store.Table
	listener net.Listener
	tls      *tls.Config
	dialect  Dialect
	presence *Presence
	log      *slog.Logger
	running  sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// Listen starts a server at addr, "host:port". Without host it takes IPv6 and IPv4 connections alike, or IPv4 alone
// where there is no IPv6. With port 0 the system picks one; Port tells which. With opts.Listener, addr is not used.
func Listen(addr string, opts ServerOptions) (*Server, error) {
	s := &Server{
		table:    store.NewTable(),
		listener: opts.Listener,
		log:      opts.Logger,
		dialect:  opts.Dialect,
		presence: opts.Presence,
		conns:    make(map[net.Conn]struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if opts.TLS != nil {
		s.tls = opts.TLS.Clone()
	}
	if s.listener == nil {
		var err error
		if s.listener, err = net.Listen("tcp", addr); err != nil {
			return nil, fmt.Errorf("tcpstore: the server socket has failed to listen on any local network address: %w", err)
		}
	}
	s.running.Go(s.accept)
	return s, nil
}

// Addr is the address that the server listens at.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Port is the TCP port that the server listens at, or 0 if its listener is of another kind.
func (s *Server) Port() int {
	if a, ok := s.listener.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// Clients counts the open connections.
func (s *Server) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Close stops listening, closes every connection and waits for the server's goroutines. The keys are lost. A second
// Close does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	err := s.listener.Close()
	for nc := range s.conns {
		// A connection that is closed under its reader has nothing left to report.
		_ = nc.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
	if err != nil {
		return fmt.Errorf("tcpstore: close listener: %w", err)
	}
	return nil
}

// The pause after a failed accept: the process may be out of file descriptors, and others' ends free some.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

func (s *Server) accept() {
	for pause := firstPause; ; {
		nc, err := s.listener.Accept()
		switch {
		case err == nil:
			pause = firstPause
			s.admit(nc)
		case s.isClosed():
			return
		case errors.Is(err, net.ErrClosed):
			s.log.Error("tcpstore: the listener was closed by others, no new clients", "error", err)
			return
		default:
			s.log.Warn("tcpstore: accept failed", "error", err, "retry in", pause)
			time.Sleep(pause)
			pause = min(2*pause, lastPause)
		}
	}
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// admit serves nc in a goroutine of its own.
func (s *Server) admit(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = nc.Close()
		return
	}
	s.conns[nc] = struct{}{}
	s.running.Go(func() {
		s.serve(nc)
		s.mu.Lock()
		delete(s.conns, nc)
		s.mu.Unlock()
	})
}

// handshakeTime bounds the TLS handshake of a client.
const handshakeTime = 30 * time.Second

// serve answers one connection until it ends, and says why if it is worth a line.
func (s *Server) serve(nc net.Conn) {
	defer nc.Close()
	wire := nc
	if s.tls != nil {
		secure := tls.Server(nc, s.tls)
		ctx, cancel := context.WithTimeout(context.Background(), handshakeTime)
		err := secure.HandshakeContext(ctx)
		cancel()
		if err != nil {
			s.log.Warn("tcpstore: connection dropped in the TLS handshake", "client", nc.RemoteAddr(), "error", err)
			return
		}
		wire = secure
	}
	ses := &session{server: s, nc: wire, in: newReader(wire)}
	err := ses.run()
	ses.leave()
	if err != nil && !s.isClosed() {
		s.log.Warn("tcpstore: connection dropped", "client", nc.RemoteAddr(), "error", err)
	}
}
