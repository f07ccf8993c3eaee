package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/colligo-go/colligo/transport"
)

// link is both directions between this rank and one peer.
type link struct {
	mesh   *mesh
	peer   int
	frame  int
	out    []sender
	in     []receiver
	door   *door // the peer's
	ending atomic.Pointer[ending]
	maps   [][]byte // what of the peer's segment is mapped

	readable   bool // the peer has said that it can read this rank's memory
	unreadable bool // it could not, in one frame at least
}

// ending is why a link is over.
type ending struct {
	err   error
	drain bool // what has arrived may still be taken
}

var _ transport.Link = (*link)(nil)

// end records the first reason that is final. One that lets frames be drained gives way to one that does not.
func (l *link) end(e *ending) error {
	for {
		old := l.ending.Load()
		if old != nil && (!old.drain || e.drain) {
			return old.err
		}
		if l.ending.CompareAndSwap(old, e) {
			return e.err
		}
	}
}

// broken ends the link because of what the peer has written.
func (l *link) broken(lane int, err error) error {
	return l.end(&ending{err: &transport.PeerError{Peer: l.peer, Err: fmt.Errorf("lane %d: %w", lane, err)}})
}

// Slot implements transport.Link.
func (l *link) Slot(lane, n int) []byte {
	if l.ending.Load() != nil {
		return nil
	}
	s := &l.out[lane]
	if ok, err := s.room(); !ok {
		if err != nil {
			_ = l.broken(lane, err) // the next Send reports it
		}
		return nil
	}
	return s.memory(n)
}

// Send implements transport.Link.
func (l *link) Send(h *transport.Header, p []byte) (bool, error) {
	if e := l.ending.Load(); e != nil {
		return false, e.err
	}
	if len(p) > l.frame || uint32(len(p)) != h.Len {
		panic(fmt.Sprintf("shm: Send of %d bytes with a header of %d; a frame holds %d", len(p), h.Len, l.frame))
	}
	s := &l.out[h.Lane]
	if ok, err := s.room(); !ok {
		if err != nil {
			err = l.broken(int(h.Lane), err)
		}
		return false, err
	}
	s.put(h, p)
	l.door.knock()
	return true, nil
}

// Head implements transport.Link.
func (l *link) Head(lane int) (*transport.Header, error) {
	r := &l.in[lane]
	e := l.ending.Load() // before the ring: what the peer sent before its end is then seen
	if e != nil && !e.drain {
		return nil, e.err
	}
	if r.have {
		return &r.head, nil
	}
	found, err := r.look()
	switch {
	case err != nil:
		return nil, l.broken(lane, err)
	case found:
		return &r.head, nil
	case e != nil:
		return nil, e.err
	}
	l.mesh.missed = r
	l.mesh.misses++
	return nil, nil
}

// Body implements transport.Link.
func (l *link) Body(lane int, dst []byte) ([]byte, bool, error) {
	r := &l.in[lane]
	if e := l.ending.Load(); e != nil && (!e.drain || !r.have) {
		return nil, false, e.err
	}
	if !r.have || dst != nil && len(dst) != int(r.head.Len) {
		panic(fmt.Sprintf("shm: Body on lane %d into %d bytes: have frame %t of %d bytes", lane, len(dst), r.have, r.head.Len))
	}
	if r.remote.left > 0 {
		p, ok := r.fetch(dst)
		if !ok {
			l.door.knock() // it is to be sent by way of the slots, or was withdrawn
		}
		return p, ok, nil
	}
	p, err := r.payload()
	if err != nil {
		return nil, false, l.broken(lane, err)
	}
	if dst == nil {
		return p, true, nil
	}
	copy(dst, p)
	return dst, true, nil
}

// Release implements transport.Link.
func (l *link) Release(lane int) {
	r := &l.in[lane]
	if e := l.ending.Load(); e != nil && !e.drain || !r.have {
		return
	}
	if r.remote.left == 0 || !r.nextPart() {
		r.giveBack()
		l.door.knock()
	}
}

// MaxFrame implements transport.Link.
func (l *link) MaxFrame() int { return l.frame }
