package tcp

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/stream"
)

// closeLimit is how long Close waits for the peers' kernels to have what was sent.
const closeLimit = time.Second

// mesh is the links of one rank.
type mesh struct {
	c       transport.Config // FrameBytes and Log filled in, Events as the user gave them
	control *transport.Control
	links   []*link  // nil for the rank itself
	local   net.Addr // of one of the connections
	w       stream.Waiter
	spin    stream.Spin
	here    int // ranks on this host, with this one
	codec   codec

	locks   []laneLock                 // by lane: held by every call of a link, and all by Close, so that no closed descriptor is used
	waiting sync.Mutex                 // held by Wait, so that Close can see it leave
	second  atomic.Pointer[laneWaiter] // of the lane that has a goroutine of its own; nil if there is none
	closing sync.Once
	closed  atomic.Bool

	forming sync.Mutex // guards the following
	formed  bool
	fail    func(error) // ends Open, until formed
}

var _ transport.Mesh = (*mesh)(nil)

func (m *mesh) String() string { return "tcp" }

// Interface returns the address from which this rank is linked, and the name of its network interface.
func (m *mesh) Interface() string {
	at, ok := m.local.(*net.TCPAddr)
	if !ok {
		return "none"
	}
	all, _ := net.Interfaces() // without them there is still the address
	for _, i := range all {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(at.IP) {
				return fmt.Sprintf("%v (%s)", at.IP, i.Name)
			}
		}
	}
	return at.IP.String()
}

func (m *mesh) Link(peer int) transport.Link {
	if peer < 0 || peer >= m.c.Size {
		panic(fmt.Sprintf("tcp: link to rank %d of %d ranks", peer, m.c.Size))
	}
	if peer == m.c.Rank {
		return nil
	}
	return m.links[peer]
}

func (m *mesh) Wait(idle int, until time.Time) {
	m.waiting.Lock()
	defer m.waiting.Unlock()
	if !m.closed.Load() {
		m.spin.Wait(m.w, idle, until)
	}
}

func (m *mesh) Wake() {
	m.w.Wake()
	if w := m.second.Load(); w != nil {
		w.w.Wake()
	}
}

func (m *mesh) Notify(peer int, note []byte) error { return m.control.Notify(peer, note) }

// lost is told by the control channel that a peer is gone.
func (m *mesh) lost(peer int, err error) {
	m.forming.Lock()
	formed := m.formed
	if !formed {
		m.fail(&transport.PeerError{Peer: peer, Err: fmt.Errorf("while the group was forming: %w", err)})
	}
	m.forming.Unlock()
	if !formed {
		return
	}
	m.links[peer].gone.Store(true)
	m.Wake()
	if f := m.c.Events.Lost; f != nil {
		f(peer, err)
	}
}

// Close ends the mesh; see invariant 5 of the package comment.
func (m *mesh) Close() error {
	m.closing.Do(func() {
		m.closed.Store(true)
		m.Wake()
		m.control.Close()
		m.waiting.Lock()
		defer m.waiting.Unlock()
		if w := m.second.Load(); w != nil {
			w.close()
		}
		for i := range m.locks {
			m.locks[i].Lock()
			defer m.locks[i].Unlock()
		}
		m.endLanes()
		m.w.Close()
		if z, ok := m.codec.(*zstdCodec); ok {
			z.d.Close()
			z.e.Close()
		}
	})
	return nil
}

// endLanes ends all lanes after what was sent on them. Bytes that the peers sent and nobody will take are read and dropped.
// A socket closed over them would take back what was sent on it.
func (m *mesh) endLanes() {
	var open, expected []stream.Stream
	for _, l := range m.links {
		if l == nil {
			continue
		}
		l.end(transport.ErrClosed)
		l.final.Store(true)
		for i := range l.lanes {
			s := l.lanes[i].stream
			s.Finish()
			open = append(open, s)
			if !l.gone.Load() {
				expected = append(expected, s)
			}
		}
	}
	sink := [][]byte{make([]byte, 64<<10)}
	until := time.Now().Add(closeLimit)
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		pending := false
		for _, s := range expected {
			pending = !drain(s, sink) || pending
		}
		if !pending || time.Now().After(until) {
			break
		}
		time.Sleep(pause)
	}
	for _, s := range open {
		s.Close()
	}
}

// drain drops what has come on a stream, a few megabytes at most, and says whether nothing is left to be sent on it.
func drain(s stream.Stream, sink [][]byte) bool {
	for range 64 {
		n, err := s.Read(sink)
		if err != nil && err != io.EOF {
			return true
		}
		if n == 0 {
			break
		}
	}
	return s.Flushed()
}

// logger returns where the mesh logs.
func logger(c *transport.Config) *slog.Logger {
	if c.Log != nil {
		return c.Log.With("mesh", "tcp", "group", c.Name, "rank", c.Rank)
	}
	return slog.New(slog.DiscardHandler)
}
