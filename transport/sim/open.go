package sim

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// Defaults for what a transport.Config leaves open.
const (
	DefaultFrameBytes = 64 << 10
	DefaultSlots      = 8
)

// group is the meshes of all ranks of a group.
type group struct {
	id      uint32
	config  transport.Config // of the rank that came first
	meshes  []*Mesh          // by rank; nil until it has joined
	globals map[int]int      // rank by global rank, of those that have joined
	joined  int
	open    int           // meshes neither closed nor killed
	ready   chan struct{} // closed when all have joined or err is set
	err     error

	listeners []*Mesh                               // want to be told of losses
	gone      []atomic.Pointer[transport.PeerError] // by rank: it has left, and everyone knows
	cuts      map[pair]*transport.PeerError         // one rank has lost another
	pipes     map[pair]*pipe
}

// pipe is one direction of a link. A rank's link to itself does not exist.
type pipe struct {
	lanes  []lane
	notes  uint64
	flying int           // notes that have not arrived
	noteAt time.Duration // when the last note arrives
}

func (g *group) pipe(src, dst int) *pipe {
	p := g.pipes[pair{src, dst}]
	if p == nil {
		p = &pipe{lanes: make([]lane, g.config.Lanes)}
		g.pipes[pair{src, dst}] = p
	}
	return p
}

// Open joins the group that c names and returns when all its ranks have. It is OpenAs with c.Rank as global rank.
func (n *Net) Open(ctx context.Context, c *transport.Config) (transport.Mesh, error) {
	return n.OpenAs(ctx, c.Rank, c)
}

// OpenAs joins a group as a global rank, for groups that number their ranks in another way than the network. A group whose
// ranks have all joined is complete: after that the same Group forms a new one. All ranks must agree about everything that
// they share. If they do not, or if ctx ends, the waiting ranks get an error that says which rank it is. Delays and silent
// ranks do not keep a group from forming. The Rendezvous is not used.
func (n *Net) OpenAs(ctx context.Context, global int, c *transport.Config) (transport.Mesh, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if global < 0 || global >= n.config.Size {
		return nil, fmt.Errorf("sim: open as global rank %d of %d", global, n.config.Size)
	}
	m, err := n.join(global, c)
	if err != nil {
		return nil, err
	}
	select {
	case <-m.group.ready:
	case <-ctx.Done():
		n.abandon(m, ctx.Err())
	}
	if m.group.err != nil {
		return nil, m.group.err
	}
	for peer := range c.Size {
		if peer != c.Rank && c.Events.Linked != nil {
			c.Events.Linked(peer)
		}
	}
	return m, nil
}

// join enters a rank into the group that is forming.
func (n *Net) join(global int, c *transport.Config) (*Mesh, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.forming[c.Group]
	if g == nil {
		g = newGroup(c)
		n.forming[c.Group] = g
	}
	if err := g.admits(global, c); err != nil {
		g.fail(err)
		delete(n.forming, c.Group)
		return nil, err
	}
	m := newMesh(n, g, global, c)
	g.meshes[c.Rank], g.globals[global] = m, c.Rank
	if c.Events.Lost != nil {
		g.listeners = append(g.listeners, m)
	}
	if g.joined++; g.joined == c.Size {
		g.open = c.Size
		delete(n.forming, c.Group)
		n.groups[g] = struct{}{}
		close(g.ready)
	}
	return m, nil
}

func newGroup(c *transport.Config) *group {
	return &group{id: c.Group, config: *c, meshes: make([]*Mesh, c.Size), globals: map[int]int{}, ready: make(chan struct{}),
		gone: make([]atomic.Pointer[transport.PeerError], c.Size), cuts: map[pair]*transport.PeerError{}, pipes: map[pair]*pipe{}}
}

func newMesh(n *Net, g *group, global int, c *transport.Config) *Mesh {
	m := &Mesh{net: n, group: g, rank: c.Rank, global: global, events: c.Events, checksum: c.Checksum,
		links: map[int]*link{}, signal: make(chan struct{}, 1), closed: make(chan struct{}), spins: crowdedSpins}
	if c.Size <= runtime.GOMAXPROCS(0) {
		m.spins = loneSpins
	}
	return m
}

// admits says why a rank cannot join, nil if it can.
func (g *group) admits(global int, c *transport.Config) error {
	first := &g.config
	if c.Size != first.Size || c.Lanes != first.Lanes || c.FrameBytes != first.FrameBytes || c.Slots != first.Slots {
		return fmt.Errorf("sim: group %#x: rank %d has size %d, %d lanes, frames of %d, %d slots; rank %d has %d, %d, %d, %d",
			g.id, c.Rank, c.Size, c.Lanes, c.FrameBytes, c.Slots, first.Rank, first.Size, first.Lanes, first.FrameBytes, first.Slots)
	}
	if !bytes.Equal(c.Secret, first.Secret) {
		return fmt.Errorf("sim: group %#x: ranks %d and %d have different secrets", g.id, c.Rank, first.Rank)
	}
	if c.Slots < 0 {
		return fmt.Errorf("sim: group %#x: rank %d asks for %d slots", g.id, c.Rank, c.Slots)
	}
	if rank, joined := g.globals[global]; joined || g.meshes[c.Rank] != nil {
		return fmt.Errorf("sim: group %#x: rank %d or global rank %d (as rank %d) has joined already", g.id, c.Rank, global, rank)
	}
	return nil
}

// fail ends a group that has not formed.
func (g *group) fail(err error) {
	g.err = err
	close(g.ready)
}

// abandon ends the group that m waits for, unless it has formed meanwhile.
func (n *Net) abandon(m *Mesh, cause error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := m.group
	if n.forming[g.id] != g {
		return
	}
	missing := slices.Index(g.meshes, nil)
	g.fail(fmt.Errorf("sim: group %#x: %d of %d ranks have joined, rank %d has not: %w", g.id, g.joined, g.config.Size, missing, cause))
	delete(n.forming, g.id)
}
