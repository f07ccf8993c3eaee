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

// link is the lanes to one peer. The mesh has a lock for each lane. The fields that all lanes use are atomic.
type link struct {
	m     *mesh
	peer  int
	lanes []lane
	gone  atomic.Bool                         // the control channel has said that the peer is gone
	since atomic.Int64                        // from when on nothing has come though something has ended, by sinceEpoch; 0 for no such time
	err   atomic.Pointer[transport.PeerError] // the link's error for ever, once set; frames that have come are before it
	final atomic.Bool                         // but not before damage and the own end
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
	at, lock := l.take(int(h.Lane))
	defer lock.Unlock()
	if l.err.Load() != nil || l.gone.Load() {
		return false, l.fail(nil)
	}
	if len(p) > l.m.c.FrameBytes {
		panic(fmt.Sprintf("tcp: payload of %d bytes, frames hold %d", len(p), l.m.c.FrameBytes))
	}
	ok, err := at.out.send(h, p)
	if !ok && err != nil {
		return false, l.ended(int(h.Lane), err)
	}
	return ok, nil
}

func (l *link) Head(lane int) (*transport.Header, error) {
	at, lock := l.take(lane)
	defer lock.Unlock()
	if l.final.Load() || at.over {
		return nil, l.err.Load()
	}
	h, err := at.in.head()
	l.heard(&at.in)
	if h != nil {
		return h, nil
	}
	return nil, l.starved(lane, err)
}

func (l *link) Body(lane int, dst []byte) ([]byte, bool, error) {
	at, lock := l.take(lane)
	defer lock.Unlock()
	if err := l.err.Load(); err != nil && (l.final.Load() || at.over || !at.in.have) {
		return nil, false, err
	}
	p, ok, err := at.in.body(dst)
	l.heard(&at.in)
	if ok {
		return p, true, nil
	}
	return nil, false, l.starved(lane, err)
}

func (l *link) Release(lane int) {
	at, lock := l.take(lane)
	defer lock.Unlock()
	if !l.final.Load() && !at.over {
		at.in.release()
	}
}

// take returns a lane with its lock, which the caller unlocks.
func (l *link) take(i int) (*lane, *laneLock) {
	at := l.lane(i)
	lock := &l.m.locks[i]
	lock.Lock()
	return at, lock
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
		if in.came = false; l.since.Load() != 0 {
			l.since.Store(0)
		}
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
	known := l.err.Load() != nil || l.gone.Load()
	switch {
	case errors.Is(err, transport.ErrCorrupt):
		l.end(err)
		l.final.Store(true)
		return l.err.Load()
	case err == nil && !known:
		return nil
	case err != nil && known:
		return l.fail(nil)
	}
	if l.since.CompareAndSwap(0, sinceEpoch()) {
		time.AfterFunc(grace, l.m.Wake) // to be asked again then
	}
	if since := l.since.Load(); since == 0 || sinceEpoch()-since < int64(grace) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("connection closed")
	}
	return l.fail(fmt.Errorf("%w: lane %d: %w", transport.ErrLost, lane, err))
}

// fail returns the link's error, which is what the control channel said, or else err, if it is not set.
func (l *link) fail(err error) error {
	if l.err.Load() == nil {
		if said := l.m.control.Err(l.peer); said != nil {
			err = said
		}
		l.end(err)
	}
	return l.err.Load()
}

// end sets the link's error, if it is not set.
func (l *link) end(err error) {
	l.err.CompareAndSwap(nil, &transport.PeerError{Peer: l.peer, Err: err})
}

// epoch is a moment before all others.
var epoch = time.Now().Add(-time.Second)

// sinceEpoch returns the nanoseconds since then, which are never 0.
func sinceEpoch() int64 { return int64(time.Since(epoch)) }
