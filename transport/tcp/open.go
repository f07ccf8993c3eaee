package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/stream"
)

// defaultFrame is the payload of one frame where the configuration leaves it open. It is so large that system calls do not
// count. It is so small that a frame in a lane's buffer stays in a core's cache. From 128 KiB to 512 KiB loopback is equally
// fast, at 1 MiB a quarter slower.
const defaultFrame = 256 << 10

// Open links this rank with all others of the group, which call it too. Events may come before it returns. It fails when a
// peer does not fit the group or is lost meanwhile, and when ctx ends. The error names the ranks that are missing and why.
func Open(ctx context.Context, config *transport.Config) (transport.Mesh, error) {
	c := *config
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.FrameBytes == 0 {
		c.FrameBytes = defaultFrame
	}
	codec, err := newCodec(c.Compression, c.FrameBytes)
	if err != nil {
		return nil, err
	}
	m := &mesh{c: c, codec: codec, links: make([]*link, c.Size), locks: make([]laneLock, c.Lanes)}
	hooked := c
	hooked.Events.Lost = m.lost
	m.control = transport.NewControl(&hooked)
	f := newForming(ctx, m)
	if err := f.run(); err != nil {
		f.abandon(err)
		return nil, err
	}
	return m, nil
}

// forming is a mesh on its way.
type forming struct {
	m      *mesh
	log    logFunc
	ctx    context.Context // ends with the first error
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	all    chan struct{} // closed when no connection is missing

	mu      sync.Mutex
	conns   [][]net.Conn // by peer and purpose
	begun   []int        // by peer, how many of them passed the handshake
	company bool         // another rank is in this process
	missing int
	why     []error // what last went wrong with a peer
}

type logFunc func(msg string, args ...any)

func newForming(ctx context.Context, m *mesh) *forming {
	f := &forming{m: m, log: logger(&m.c).Warn, all: make(chan struct{}), why: make([]error, m.c.Size)}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	m.fail = f.cancel
	f.conns, f.begun = make([][]net.Conn, m.c.Size), make([]int, m.c.Size)
	for peer := range f.conns {
		if peer != m.c.Rank {
			f.conns[peer] = make([]net.Conn, 1+m.c.Lanes)
			f.missing += 1 + m.c.Lanes
		}
	}
	if f.missing == 0 {
		close(f.all)
	}
	return f
}

// run listens, dials, waits until every connection is there, and makes links of them.
func (f *forming) run() error {
	c := &f.m.c
	defer f.wg.Wait()
	defer f.cancel(nil)
	if c.Rank < c.Size-1 {
		l, addrs, err := listen(f.ctx, c)
		if err != nil {
			return err
		}
		defer l.Close()
		if err := publish(f.ctx, c, addrs); err != nil {
			return err
		}
		f.wg.Go(func() { f.accept(l) })
	}
	turns := make(chan struct{}, dialers)
	for peer := range c.Rank {
		f.wg.Go(func() { f.reach(peer, turns) })
	}
	select {
	case <-f.all:
	case <-f.ctx.Done():
		return f.explain()
	}
	if err := f.link(); err != nil {
		return err
	}
	f.m.forming.Lock()
	defer f.m.forming.Unlock()
	if f.ctx.Err() != nil {
		return f.explain()
	}
	f.m.formed, f.m.fail = true, nil
	return nil
}

// link makes streams and links of the connections.
func (f *forming) link() error {
	m := f.m
	var conns []net.Conn
	here := 1
	for peer := range f.conns {
		if peer == m.c.Rank {
			continue
		}
		conns = append(conns, f.conns[peer][transport.PurposeLane:]...)
		m.local = f.conns[peer][transport.PurposeControl].LocalAddr()
		if stream.SameHost(f.conns[peer][transport.PurposeControl]) {
			here++
		}
	}
	f.mu.Lock()
	company := f.company
	f.mu.Unlock()
	m.spin.Allow(here, company)
	m.here = here
	streams, w, err := stream.Open(conns)
	if err != nil {
		return err
	}
	if m.w = w; m.spin.Never() {
		w.SleepAtOnce()
	}
	for peer := range f.conns {
		if peer == m.c.Rank {
			continue
		}
		l := &link{m: m, peer: peer, lanes: make([]lane, m.c.Lanes)}
		for i := range l.lanes {
			l.lanes[i].stream = streams[i]
			l.lanes[i].out = sender{s: streams[i], codec: m.codec, checksum: m.c.Checksum}
			l.lanes[i].in = receiver{s: streams[i], codec: m.codec, lane: i, frame: m.c.FrameBytes}
		}
		streams = streams[m.c.Lanes:]
		m.links[peer] = l
	}
	return nil
}

// note remembers whether a peer is in this process, by its terms.
func (f *forming) note(theirs terms) {
	f.mu.Lock()
	f.company = f.company || theirs.process == thisProcess
	f.mu.Unlock()
}

// place takes a connection that has passed the handshake; false means there is one already.
func (f *forming) place(peer int, purpose uint16, conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conns[peer][purpose] != nil {
		return false
	}
	f.conns[peer][purpose] = conn
	return true
}

// begin counts a placed connection as there, lifts its deadline, and begins to listen to it if it is for control.
func (f *forming) begin(peer int, purpose uint16, conn net.Conn) {
	conn.SetDeadline(time.Time{}) // a connection that takes none has failed already
	if purpose == transport.PurposeControl {
		f.m.control.Add(peer, conn)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun[peer]++; f.begun[peer] == len(f.conns[peer]) && f.m.c.Events.Linked != nil {
		f.m.c.Events.Linked(peer)
	}
	if f.missing--; f.missing == 0 {
		close(f.all)
	}
}

// abandon tells the peers why this rank gives up, so that they fail too, and closes everything.
func (f *forming) abandon(why error) {
	f.m.control.GiveUp(why.Error())
	f.mu.Lock()
	for _, conns := range f.conns {
		for _, conn := range conns {
			if conn != nil {
				conn.Close()
			}
		}
	}
	f.mu.Unlock()
	for _, l := range f.m.links {
		if l == nil {
			continue
		}
		for i := range l.lanes {
			l.lanes[i].stream.Close()
		}
	}
	if f.m.w != nil {
		f.m.w.Close()
	}
}

// explain says why the group did not form.
func (f *forming) explain() error {
	c := &f.m.c
	cause := context.Cause(f.ctx)
	var pe *transport.PeerError
	if errors.As(cause, &pe) {
		return fmt.Errorf("tcp: rank %d cannot join group %q: %w", c.Rank, c.Name, cause)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var absent []string
	for peer, conns := range f.conns {
		have := 0
		for _, conn := range conns {
			if conn != nil {
				have++
			}
		}
		switch {
		case have == len(conns):
		case f.why[peer] != nil:
			absent = append(absent, fmt.Sprintf("rank %d: %v", peer, f.why[peer]))
		case peer > c.Rank:
			absent = append(absent, fmt.Sprintf("rank %d has not dialed (%d of %d connections)", peer, have, len(conns)))
		default:
			absent = append(absent, fmt.Sprintf("rank %d has not answered (%d of %d connections)", peer, have, len(conns)))
		}
	}
	n := len(absent)
	if n > 8 {
		absent = append(absent[:8], "…")
	}
	return fmt.Errorf("tcp: rank %d cannot join group %q: %w; missing %d of %d peers: %s",
		c.Rank, c.Name, cause, n, c.Size-1, strings.Join(absent, "; "))
}
