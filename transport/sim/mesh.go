package sim

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// Rounds that Wait only yields the processor for, where there is one for every rank and where there is not.
const (
	loneSpins    = 200
	crowdedSpins = 4
)

// While other goroutines keep all processors busy, a yield can take a tenth of a second, for the scheduler sees to sleepers first. After slow
// yields a rank sleeps a number of times without yielding before. After a wait with short yields, it does not take the time of the first
// sixteen of the next waits.
const (
	slowYields    = time.Millisecond
	sleepsAfter   = 100
	judgedEvery   = 16
	unjudgedWaits = 7
)

// Mesh is all links of one rank; see transport.Mesh.
type Mesh struct {
	net      *Net
	group    *group
	rank     int // in the group
	global   int
	events   transport.Events
	checksum bool
	watchers []*Mesh               // have a link to this rank; under net.mu
	last     time.Duration         // when the last of what was sent arrives; under net.mu
	fail     atomic.Pointer[error] // set when the mesh was closed or killed

	signal     chan struct{} // one token: Wait shall return
	sleeping   atomic.Bool   // Wait needs a token to return
	armed      bool          // Wait returned once with sleeping set, so that the links were looked at since
	spins      int
	sleepsLeft int           // before which there are no yields
	unjudged   int           // waits since one whose first yields judge has looked at
	yielded    time.Duration // from epoch until judge began to look; 0: it has not
	timer      *time.Timer

	mu      sync.Mutex
	links   map[int]*link
	notices []notice
	serving chan struct{} // closed when the goroutine that calls events has ended; nil: none runs
	closing bool
	closed  chan struct{} // closed when Close has done everything
}

var _ transport.Mesh = (*Mesh)(nil)

// String returns "sim".
func (m *Mesh) String() string { return "sim" }

// Link returns the link to a peer, nil for the rank itself.
func (m *Mesh) Link(peer int) transport.Link {
	if peer == m.rank {
		return nil
	}
	m.mu.Lock()
	l := m.links[peer]
	m.mu.Unlock()
	if l != nil {
		return l
	}
	return m.connect(peer)
}

// connect makes the link to a peer that nobody has asked for yet.
func (m *Mesh) connect(peer int) *link {
	if peer < 0 || peer >= m.group.config.Size {
		panic(fmt.Sprintf("sim: link of rank %d to rank %d of %d", m.rank, peer, m.group.config.Size))
	}
	n, g := m.net, m.group
	n.mu.Lock()
	defer n.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.links[peer]; l != nil {
		return l
	}
	l := &link{mesh: m, peer: g.meshes[peer], gone: &g.gone[peer], slots: g.config.Slots, frame: g.config.FrameBytes,
		out: g.pipe(m.rank, peer), in: g.pipe(peer, m.rank)}
	if l.slots == 0 {
		l.slots = DefaultSlots
	}
	if l.frame == 0 {
		l.frame = DefaultFrameBytes
	}
	l.cut.Store(g.cuts[pair{peer, m.rank}])
	m.links[peer] = l
	l.peer.watchers = append(l.peer.watchers, m)
	return l
}

// failed returns what every call on the mesh reports, nil while it is open.
func (m *Mesh) failed() error {
	if err := m.fail.Load(); err != nil {
		return *err
	}
	return nil
}

// Wait implements transport.Mesh. A rank about to sleep says so and returns once. A goroutine that delivers something after
// the links were looked at then knows to wake it.
func (m *Mesh) Wait(idle int, until time.Time) {
	switch {
	case m.fail.Load() != nil:
		return
	case idle <= m.spins && m.sleepsLeft == 0:
		m.disarm()
		runtime.Gosched()
		m.judge(idle)
		return
	case !m.armed:
		m.armed = true
		m.sleeping.Store(true)
		return
	}
	m.sleepsLeft = max(0, m.sleepsLeft-1)
	m.sleep(until)
	m.disarm()
}

// epoch is when durations begin that stand for times: to read the clock for one costs half as much as for a time.
var epoch = time.Now()

// judge takes the time of two yields of a wait together, of every sixteen. It leaves out the first sixteen of unjudgedWaits after one that was
// judged, for reading the clock makes a short wait longer (BenchmarkPingPong). After slow yields the next wait is judged.
func (m *Mesh) judge(idle int) {
	if idle == 1 {
		m.unjudged, m.yielded = (m.unjudged+1)%(1+unjudgedWaits), 0
	}
	switch {
	case m.unjudged > 0 && idle <= judgedEvery:
	case idle%judgedEvery == crowdedSpins-2:
		m.yielded = time.Since(epoch)
	case idle%judgedEvery == crowdedSpins && m.yielded > 0 && time.Since(epoch)-m.yielded > slowYields:
		m.sleepsLeft, m.unjudged = sleepsAfter, unjudgedWaits
	}
}

func (m *Mesh) disarm() {
	if m.armed {
		m.armed = false
		m.sleeping.Store(false)
	}
}

func (m *Mesh) sleep(until time.Time) {
	if until.IsZero() {
		<-m.signal
		return
	}
	d := time.Until(until)
	if d <= 0 {
		return
	}
	if m.timer == nil {
		m.timer = time.NewTimer(d)
	} else {
		m.timer.Reset(d)
	}
	select {
	case <-m.signal:
		m.timer.Stop()
	case <-m.timer.C:
	}
}

// Wake implements transport.Mesh.
func (m *Mesh) Wake() {
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

// poke wakes the rank if it sleeps.
func (m *Mesh) poke() {
	if m.sleeping.Load() {
		m.Wake()
	}
}

// Notify implements transport.Mesh. To a peer known to be gone it reports what the link to it does.
func (m *Mesh) Notify(peer int, note []byte) error {
	size := m.group.config.Size
	if peer < 0 || peer >= size || peer == m.rank {
		panic(fmt.Sprintf("sim: note from rank %d to rank %d of %d", m.rank, peer, size))
	}
	if err := m.failed(); err != nil {
		return err
	}
	if len(note) > transport.MaxNote {
		return fmt.Errorf("sim: note of %d bytes to rank %d, allowed are %d", len(note), peer, transport.MaxNote)
	}
	if err := m.lostPeer(peer); err != nil {
		return err
	}
	m.net.notify(m, m.group.meshes[peer], append([]byte{}, note...))
	return nil
}

// lostPeer returns why a peer is gone, nil if it is not.
func (m *Mesh) lostPeer(peer int) error {
	if err := m.group.gone[peer].Load(); err != nil {
		return err
	}
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	if err := m.group.cuts[pair{peer, m.rank}]; err != nil {
		return err
	}
	return nil
}

// Close implements transport.Mesh. When it returns no event is being called, and none will be.
func (m *Mesh) Close() error {
	m.mu.Lock()
	first, serving := !m.closing, m.serving
	m.closing = true
	m.notices = nil
	m.mu.Unlock()
	if !first {
		<-m.closed
		return nil
	}
	m.net.mu.Lock()
	m.net.leave(m, fmt.Errorf("sim: rank %d: %w", m.rank, transport.ErrClosed), transport.ErrGoodbye)
	m.net.pump()
	m.net.mu.Unlock()
	if serving != nil {
		<-serving
	}
	close(m.closed)
	return nil
}
