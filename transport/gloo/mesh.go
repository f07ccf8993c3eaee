package gloo

import (
	"net"
	"sync"
	"time"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/peermem"
	"github.com/colligo-go/colligo/transport/internal/stream"
)

// Mesh is the connections of one rank with all others of a group. One goroutine at a time uses it; Wake, Abort and Close may
// be called from any.
type Mesh struct {
	rank, size int
	w          stream.Waiter
	beside     bool // the waiter is another mesh's
	spin       stream.Spin
	token      *peermem.Token // which peers read beside this rank's payloads; nil where none may
	accept     *acceptor      // of peers that connect lazily; nil where all are connected

	mu     sync.Mutex // held by every call, so that no closed connection is used
	pairs  []*pair    // nil for the rank itself
	any    []*Receive // from any peer, without one
	offers uint64     // sends that peers have announced so far
	err    error      // ends the mesh
	closed bool

	waiting sync.Mutex // held by Wait, so that Close can see it leave
}

// failed makes an error of a pair that of the mesh.
func (m *Mesh) failed(p *pair, err error) error {
	if err == nil {
		return nil
	}
	if m.err == nil {
		m.err = &transport.PeerError{Peer: p.peer, Err: err}
	}
	return m.err
}

// pullAll takes in what has come from all peers. A peer that is gone is no error while others may send.
func (m *Mesh) pullAll() error {
	gone := 0
	var last *pair
	for _, p := range m.pairs {
		if p == nil {
			continue
		}
		if p.ended != nil && p.reading == nil && p.w-p.r < headSize {
			gone, last = gone+1, p
			continue
		}
		if err := p.pull(); err != nil && p.ended == nil {
			return m.failed(p, err)
		}
	}
	if gone == m.size-1 {
		return m.failed(last, last.lost(last.ended))
	}
	return nil
}

// Poll takes connections that have come, and moves queued notices. It is called at the begin of every round over the mesh.
func (m *Mesh) Poll() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil || m.accept == nil {
		return nil // what is sent and received finds the error
	}
	for peer, conn := range m.accept.take() {
		if p := m.pairs[peer]; p.stream == nil {
			if err := m.connect(p, conn); err != nil {
				return m.failed(p, err)
			}
		} else {
			conn.Close()
		}
	}
	return nil
}

// connect gives a pair its connection.
func (m *Mesh) connect(p *pair, conn net.Conn) error {
	s, err := m.w.Add(conn)
	if err != nil {
		conn.Close()
		return err
	}
	p.stream = s
	return p.flush()
}

// Wait is called when a round over the mesh has moved nothing; idle counts such rounds since something moved, from 1. It
// returns when something may have moved, Wake was called, or until has passed (zero: no limit). It may return early.
func (m *Mesh) Wait(idle int, until time.Time) {
	m.waiting.Lock()
	defer m.waiting.Unlock()
	m.mu.Lock()
	over := m.closed
	m.mu.Unlock()
	if over || m.Relieve() {
		return
	}
	m.spin.Wait(m.w, idle, until)
}

// Wake ends a Wait from any goroutine.
func (m *Mesh) Wake() { m.w.Wake() }

// String names the medium.
func (m *Mesh) String() string { return "gloo" }
