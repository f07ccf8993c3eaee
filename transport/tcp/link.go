package tcp

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/stream"
)

// grace is how long the end of a lane waits for the control channel to explain it. A peer's goodbye or death waits as long
// for the end of lanes on which frames may still be on their way.
const grace = time.Second

// link is the lanes to one peer. Its fields are guarded by mesh.mu.
type link struct {
	m     *mesh
	peer  int
	lanes []lane
	gone  atomic.Bool // the control channel has said that the peer is gone
	since time.Time   // from when on nothing has come though something has ended
	err   error       // the link's error for ever, once set; frames that have come are before it
	final bool        // but not before damage and the own end
}

type lane struct {
	stream stream.Stream
	out    sender
	in     receiver
	over   bool // nothing more of it will be whole: it has reported the link's error, and goes on doing so
}

var _ transport.Link = (*link)(nil)

// Slot returns nil: header and payload go to the kernel in one call from wherever they are.
func (l *link) Slot(int, int) []byte { return nil }

func (l *link) MaxFrame() int { return l.m.c.FrameBytes }

func (l *link) Send(h *transport.Header, p []byte) (bool, error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.err != nil || l.gone.Load() {
		return false, l.fail(nil)
	}
	if len(p) > l.m.c.FrameBytes {
		panic(fmt.Sprintf("tcp: payload of %d bytes, frames hold %d", len(p), l.m.c.FrameBytes))
	}
	ok, err := l.lane(int(h.Lane)).out.send(h, p)
	if !ok && err != nil {
		return false, l.ended(int(h.Lane), err)
	}
	return ok, nil
}

func (l *link) Head(lane int) (*transport.Header, error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	in := &l.lane(lane).in
	if l.final || l.lanes[lane].over {
		return nil, l.err
	}
	h, err := in.head()
	l.heard(in)
	if h != nil {
		return h, nil
	}
	return nil, l.starved(lane, err)
}

func (l *link) Body(lane int, dst []byte) ([]byte, bool, error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	in := &l.lane(lane).in
	if l.final || l.lanes[lane].over || !in.have && l.err != nil {
		return nil, false, l.err
	}
	p, ok, err := in.body(dst)
	l.heard(in)
	if ok {
		return p, true, nil
	}
	return nil, false, l.starved(lane, err)
}

func (l *link) Release(lane int) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if at := l.lane(lane); !l.final && !at.over {
		at.in.release()
	}
}

func (l *link) lane(i int) *lane {
	if i < 0 || i >= len(l.lanes) {
		panic(fmt.Sprintf("tcp: lane %d of a link with %d lanes", i, len(l.lanes)))
	}
	return &l.lanes[i]
}

// heard lets the grace begin anew where bytes have come on a lane. A frame of which no more comes does not prolong it.
func (l *link) heard(in *receiver) {
	if in.came {
		in.came, l.since = false, time.Time{}
	}
}

// starved judges a lane on which nothing can be taken now. A frame of which only a part has come is given up with it.
func (l *link) starved(lane int, err error) error {
	err = l.ended(lane, err)
	l.lanes[lane].over = err != nil
	return err
}

// ended judges a lane that cannot go on now; err is its stream's or decoder's, nil if there is only nothing to be had now.
// Damage is an error at once. Otherwise a lane has ended when its stream has and the control channel has said why. If only
// one of the two has happened, the other is waited for.
func (l *link) ended(lane int, err error) error {
	known := l.err != nil || l.gone.Load()
	switch {
	case errors.Is(err, transport.ErrCorrupt):
		l.final = true
		return l.fail(err)
	case err == nil && !known:
		return nil
	case err != nil && known:
		return l.fail(nil)
	case l.since.IsZero():
		l.since = time.Now()
		time.AfterFunc(grace, l.m.Wake) // to be asked again then
	}
	if time.Since(l.since) < grace {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("connection closed")
	}
	return l.fail(fmt.Errorf("%w: lane %d: %w", transport.ErrLost, lane, err))
}

// fail returns the link's error, which is what the control channel said, or else err, if it is not set.
func (l *link) fail(err error) error {
	if l.err == nil {
		if said := l.m.control.Err(l.peer); said != nil && !l.final {
			err = said
		}
		l.err = &transport.PeerError{Peer: l.peer, Err: err}
	}
	return l.err
}
