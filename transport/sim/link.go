package sim

import (
	"fmt"
	"sync/atomic"

	"github.com/colligo-go/colligo/transport"
)

// link carries frames between a rank and one peer; see transport.Link.
type link struct {
	mesh, peer *Mesh
	out, in    *pipe
	slots      int // credit of a lane
	frame      int // largest payload
	gone       *atomic.Pointer[transport.PeerError]
	cut        atomic.Pointer[transport.PeerError]
	broken     error  // a corrupt frame was met
	ended      uint64 // bit for each lane that has reported the peer's end; nothing comes after it
}

var _ transport.Link = (*link)(nil)

// MaxFrame implements transport.Link.
func (l *link) MaxFrame() int { return l.frame }

// err returns why the link cannot be used, nil if it can.
func (l *link) err() error {
	if err := l.mesh.fail.Load(); err != nil {
		return *err
	}
	return l.broken
}

// end returns why the peer is gone, nil if it is not.
func (l *link) end() error {
	if err := l.cut.Load(); err != nil {
		return err
	}
	if err := l.gone.Load(); err != nil {
		return err
	}
	return nil
}

// Slot implements transport.Link.
func (l *link) Slot(lane, n int) []byte {
	if l.err() != nil || l.end() != nil {
		return nil
	}
	s := l.out.lanes[lane].free(l.slots)
	if s == nil {
		return nil
	}
	return s.room(min(max(n, 0), l.frame), l.frame)
}

// Send implements transport.Link.
func (l *link) Send(h *transport.Header, p []byte) (bool, error) {
	if int(h.Len) != len(p) || len(p) > l.frame || int(h.Lane) >= len(l.out.lanes) {
		panic(fmt.Sprintf("sim: frame of %d bytes with Len %d on lane %d, allowed are %d bytes and %d lanes",
			len(p), h.Len, h.Lane, l.frame, len(l.out.lanes)))
	}
	if err := l.err(); err != nil {
		return false, err
	}
	if err := l.end(); err != nil {
		return false, err
	}
	r := &l.out.lanes[h.Lane]
	s := r.free(l.slots)
	if s == nil {
		return false, nil
	}
	s.put(h, p, l.frame)
	if !l.mesh.net.direct.Load() || r.visible.Load() != r.sent {
		l.mesh.net.send(l, int(h.Lane), s)
		return true, nil
	}
	r.sent++
	r.visible.Store(r.sent)
	l.peer.poke()
	return true, nil
}

// next returns the slot of the next frame on a lane, nil if there is none, or the link's error if none will come.
func (l *link) next(lane int) (*slot, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	r := &l.in.lanes[lane]
	if l.ended&(1<<lane) == 0 {
		if s := r.front(); s != nil {
			return s, nil
		}
	}
	err := l.end()
	if err == nil {
		return nil, nil
	}
	if l.ended&(1<<lane) == 0 {
		if s := r.front(); s != nil { // delivered between the look above and the end
			return s, nil
		}
		l.ended |= 1 << lane
	}
	return nil, err
}

// spoil makes err the error of the link.
func (l *link) spoil(lane int, err error) error {
	l.broken = &transport.PeerError{Peer: l.peer.rank,
		Err: fmt.Errorf("lane %d, frame %d: %w", lane, l.in.lanes[lane].taken.Load(), err)}
	return l.broken
}

// Head implements transport.Link.
func (l *link) Head(lane int) (*transport.Header, error) {
	s, err := l.next(lane)
	if s == nil {
		return nil, err
	}
	if s.spoilt == headerSpoilt {
		if err := s.headerError(); err != nil {
			return nil, l.spoil(lane, err)
		}
	}
	return &s.header, nil
}

// Body implements transport.Link.
func (l *link) Body(lane int, dst []byte) ([]byte, bool, error) {
	s, err := l.next(lane)
	if s == nil {
		return nil, false, err
	}
	if s.spoilt == payloadSpoilt {
		if err := s.payloadError(); err != nil {
			return nil, false, l.spoil(lane, err)
		}
	}
	if dst == nil {
		return s.data, true, nil
	}
	if len(dst) != len(s.data) {
		panic(fmt.Sprintf("sim: %d bytes of memory for a frame of %d", len(dst), len(s.data)))
	}
	copy(dst, s.data)
	return dst, true, nil
}

// Release implements transport.Link.
func (l *link) Release(lane int) {
	r := &l.in.lanes[lane]
	if r.front() == nil {
		panic(fmt.Sprintf("sim: release on lane %d, which has no frame", lane))
	}
	r.taken.Add(1)
	l.peer.poke()
}
