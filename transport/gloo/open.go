package gloo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/peermem"
	"github.com/colligo-go/colligo/transport/internal/stream"
)

// Dialect is how ranks find one another.
type Dialect uint8

// The dialects. All ranks of a group speak one.
const (
	New Dialect = iota // of Gloo since July 2023: PyTorch 2.1 and later
	Old                // of Gloo before May 2023: PyTorch 1.13
)

// Config is what Open needs to know.
type Config struct {
	Rank, Size int
	Name       string // the group's name for messages
	Dialect    Dialect
	Rendezvous transport.Rendezvous // the group's part of the store
	Host       string               // address, interface or host name to listen at; empty: as Probe, else this host's name, tell
	Probe      string               // host:port whose route tells the address
	TLS        *tls.Config          // encrypts, when set
	Beside     *Mesh                // of the same group: Wait of that mesh waits for this one, too; it is closed last
	Log        *slog.Logger         // nil discards

	copies bool // every payload goes through the connection; for tests
}

// Open links this rank with all others. It returns when every peer is linked that does not connect lazily, or fails as soon as
// one cannot be, saying which. The context bounds it.
func Open(ctx context.Context, c *Config) (*Mesh, error) {
	if c.Size < 1 || c.Size > maxRanks || c.Rank < 0 || c.Rank >= c.Size {
		return nil, fmt.Errorf("gloo: rank %d of %d ranks", c.Rank, c.Size)
	}
	f := &forming{Config: c, log: c.Log, conns: make([]net.Conn, c.Size), marks: make([]mark, c.Size)}
	if c.TLS == nil && !c.copies {
		f.token = peermem.NewToken()
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	defer f.cancel(nil)
	meet := f.meetNew
	if c.Dialect == Old {
		meet = f.meetOld
	}
	err := meet()
	f.wg.Wait()
	var m *Mesh
	if err == nil {
		m, err = f.mesh()
	}
	if err != nil {
		f.abandon()
		return nil, fmt.Errorf("gloo: rank %d cannot join group %q: %w", c.Rank, c.Name, err)
	}
	return m, nil
}

// forming is a mesh on its way.
type forming struct {
	*Config
	log    *slog.Logger
	ctx    context.Context // ends with the first error
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	accept *acceptor // of New

	token *peermem.Token // nil with TLS

	mu    sync.Mutex
	conns []net.Conn // by peer
	marks []mark     // of the peers
}

// each runs link for every peer at once. It returns the first error, or where the context has ended those of all peers.
func (f *forming) each(link func(peer int) error) error {
	turns := make(chan struct{}, dialers)
	errs := make([]error, f.Size)
	for peer := range f.Size {
		if peer == f.Rank {
			continue
		}
		f.wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if err := link(peer); err != nil {
				errs[peer] = &transport.PeerError{Peer: peer, Err: err}
				f.cancel(errs[peer])
			}
		})
	}
	f.wg.Wait()
	cause := context.Cause(f.ctx)
	var first *transport.PeerError
	if cause == nil || errors.As(cause, &first) {
		return cause
	}
	return errors.Join(append([]error{cause}, errs...)...)
}

// dialers bounds the peers that are linked at a time.
const dialers = 64

// get waits for what a peer publishes.
func (f *forming) get(peer int) ([]byte, error) {
	b, err := f.Rendezvous.Get(f.ctx, strconv.Itoa(peer))
	if err != nil {
		return nil, fmt.Errorf("its address in the store: %w", err)
	}
	return b, nil
}

// published notes the mark in the address of a peer.
func (f *forming) published(peer int, a address) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marks[peer] = a.mark
}

// link takes a peer's connection, after the introduction.
func (f *forming) link(peer int, conn net.Conn, dialled bool) error {
	conn, err := f.secure(peer, conn, dialled)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[peer] = conn
	return nil
}

// secure begins TLS where the configuration asks for it. The dialler is the client.
func (f *forming) secure(_ int, conn net.Conn, dialled bool) (net.Conn, error) {
	if f.TLS == nil {
		return conn, nil
	}
	secured := tls.Server(conn, f.TLS)
	if dialled {
		secured = tls.Client(conn, f.TLS)
	}
	if err := secured.HandshakeContext(f.ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("tls: %w", err), conn.Close())
	}
	return secured, nil
}

// mesh makes the mesh of the connections.
func (f *forming) mesh() (*Mesh, error) {
	m := &Mesh{rank: f.Rank, size: f.Size, token: f.token, pairs: make([]*pair, f.Size)}
	if f.Beside != nil {
		m.w, m.beside = f.Beside.w, true
	} else {
		var err error
		if m.w, err = stream.New(f.TLS == nil); err != nil {
			return nil, err
		}
	}
	here, linked, company := 1, 1, false
	for peer, conn := range f.conns {
		if peer == f.Rank {
			continue
		}
		p := newPair(m, peer)
		m.pairs[peer] = p
		if conn == nil {
			continue
		}
		onHost := stream.SameHost(conn)
		if linked++; onHost {
			here++
			company = company || f.marks[peer].here()
		}
		if f.token != nil {
			p.meet(f.marks[peer], onHost)
		}
		if err := m.connect(p, conn); err != nil {
			m.end(false)
			return nil, &transport.PeerError{Peer: peer, Err: err}
		}
		f.conns[peer] = nil
	}
	m.spin.Allow(here, company)
	// A rank of PyTorch hands a call and its messages from thread to thread, and answers after 100 to 200 µs.
	m.spin.Patient()
	if m.spin.Never() && !m.beside { // one beside another may be waiting already
		m.w.SleepAtOnce()
	}
	if f.accept != nil && linked < f.Size {
		m.accept = f.accept
		m.accept.notify(m.Wake)
	} else if f.accept != nil {
		f.accept.close()
	}
	return m, nil
}

// abandon closes everything. The peers' connections end, and their ranks fail.
func (f *forming) abandon() {
	if f.accept != nil {
		f.accept.close()
	}
	for _, conn := range f.conns {
		if conn != nil {
			conn.Close()
		}
	}
}
