package shm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/peermem"
)

// mesh is one rank's view: its own segment, and of each peer's what concerns this rank.
type mesh struct {
	c       *transport.Config // a copy whose events end the links first
	log     *slog.Logger
	layout  layout
	links   []*link // by rank, nil at the own
	waiter          // with the own doorbell
	second  waiter  // of the lane that is lent
	lent    atomic.Bool
	control *transport.Control
	fail    context.CancelCauseFunc // ends Open; without effect when the group has formed
	missed  *receiver               // where the frame was looked for that has not come
	misses  int                     // in how many places one was looked for since one came, or since the last wait

	neighbours neighbours

	life   sync.RWMutex // held for reading while the own door is used outside links, for writing to unmap
	closed atomic.Bool
	once   sync.Once
	space  *space
	own    []byte // the own segment
}

var (
	_ transport.Mesh    = (*mesh)(nil)
	_ transport.Spinner = (*mesh)(nil)
)

// Open makes this rank's segment, meets the peers and returns when all are linked. Events may come before it returns. It
// fails when a peer does not fit the group or is lost meanwhile, and when ctx ends.
func Open(ctx context.Context, c *transport.Config) (transport.Mesh, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	l, err := newLayout(c)
	if err != nil {
		return nil, err
	}
	fd, err := newSegment(fmt.Sprintf("colligo %s rank %d", c.Name, c.Rank), l.segment())
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	m, err := newMesh(c, l, fd)
	if err != nil {
		return nil, err
	}
	if err := m.meet(ctx, fd); err != nil {
		_ = m.control.GiveUp(err.Error()) // a peer that does not hear it sees the connection end
		_ = m.Close()                     // what failed is the news
		return nil, err
	}
	return m, nil
}

// newMesh maps the own segment.
func newMesh(c *transport.Config, l layout, fd int) (*mesh, error) {
	m := &mesh{layout: l, log: c.Log, links: make([]*link, l.size)}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	own := *c
	own.Events.Lost = m.lost(c.Events.Lost)
	m.c = &own
	m.control = transport.NewControl(m.c)
	var err error
	if m.space, err = reserve(l.space()); err != nil {
		return nil, err
	}
	if m.own, err = m.space.mapping(fd, 0, int(l.segment())); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: %w", err), m.space.unmap())
	}
	m.waiter.mesh, m.waiter.door = m, doorAt(m.own, 0)
	m.second.mesh, m.second.door = m, doorAt(m.own, 1)
	for peer := range m.links {
		if peer != c.Rank {
			m.links[peer] = newLink(peer, &l, m.own, m.own[l.offset(c.Rank, peer):], place(c.Rank, peer))
			m.links[peer].mesh = m
		}
	}
	return m, nil
}

// newLink makes the receiving half of a link.
func newLink(peer int, l *layout, head, region []byte, place int) *link {
	k := &link{peer: peer, frame: l.frame, in: make([]receiver, l.lanes), out: make([]sender, l.lanes)}
	limits := [places]int{inLine: max(l.short(), inlineBytes), inSlot: l.frame, inSlotTimed: l.frame, inSlotOther: l.frame}
	for lane := range k.in {
		k.in[lane] = receiver{ring: l.ring(head, region, place, lane), lane: lane, limits: limits}
	}
	return k
}

// attach maps what concerns this rank of a peer's segment and makes the sending half of the link. Reads is the peer's memory, nil if
// it cannot be read.
func (m *mesh) attach(peer, fd int, reads *peermem.Memory) error {
	k, l := m.links[peer], &m.layout
	if k.door != nil {
		return errors.New("has come twice")
	}
	head, err := m.space.mapping(fd, 0, l.head())
	if err != nil {
		return err
	}
	region, err := m.space.mapping(fd, l.offset(peer, m.c.Rank), l.region())
	if err != nil {
		return err
	}
	k.door, k.second = doorAt(head, 0), doorAt(head, 1)
	users := make([]uint64, l.lanes*l.slots)
	k.answer = l.answer(head, m.c.Rank)
	for lane := range k.out {
		k.out[lane] = sender{ring: l.ring(head, region, place(peer, m.c.Rank), lane), summed: m.c.Checksum, users: users[lane*l.slots:][:l.slots:l.slots]}
		k.out[lane].filling = newFilling(l.slots, k.out[lane].credit)
		if reads != nil {
			k.in[lane].remote.memory, k.in[lane].limits[inSender] = reads.Beside(), maxZeroCopy
		}
	}
	if reads != nil {
		l.answer(m.own, peer).give()
	}
	return nil
}

// lost ends the link before the user hears of it. A peer that says goodbye has met all others: it keeps no group from
// forming.
func (m *mesh) lost(tell func(int, error)) func(int, error) {
	return func(peer int, err error) {
		_ = m.links[peer].end(&ending{err: &transport.PeerError{Peer: peer, Err: err}, drain: true})
		if !errors.Is(err, transport.ErrGoodbye) {
			m.fail(&transport.PeerError{Peer: peer, Err: fmt.Errorf("while the group was forming: %w", err)})
		}
		m.Wake()
		if tell != nil {
			tell(peer, err)
		}
	}
}

// Link implements transport.Mesh.
func (m *mesh) Link(peer int) transport.Link {
	if l := m.links[peer]; l != nil {
		return l
	}
	return nil
}

// Notify implements transport.Mesh.
func (m *mesh) Notify(peer int, note []byte) error { return m.control.Notify(peer, note) }

// String implements transport.Mesh.
func (m *mesh) String() string { return "shm" }

// Close implements transport.Mesh.
func (m *mesh) Close() (err error) {
	m.once.Do(func() {
		for _, l := range m.links {
			if l != nil {
				l.ending.Store(&ending{err: transport.ErrClosed})
				l.Withdraw()
			}
		}
		m.closed.Store(true)
		m.door.ring() // a goroutine that sleeps in Wait lets go of life
		m.second.door.ring()
		err = m.control.Close()
		m.life.Lock()
		defer m.life.Unlock()
		if failed := m.space.unmap(); err == nil {
			err = failed
		}
	})
	return err
}
