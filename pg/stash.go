package pg

import (
	"errors"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// maxStash bounds the bytes of messages that came before their receive was posted and had to make way for others of the
// same peer. Beyond it a message waits in its lane and holds up those behind it.
const maxStash = 64 << 20

// stray is a message without a receive.
type stray struct {
	peer int
	call transport.Call
	data []byte
	off  int
}

// stash keeps strays in the order of their coming.
type stash struct {
	bytes  int
	strays []*stray
}

// take gives a receive the first complete stray that has its tag.
func (s *stash) take(op *operation) (bool, error) {
	for i, m := range s.strays {
		if m.off < len(m.data) || op.peer != anyPeer && op.peer != m.peer || int(m.call.Root) != op.tag {
			continue
		}
		if err := op.fits(m.peer, m.call); err != nil {
			return false, err
		}
		if len(m.data) != len(op.out) {
			return false, wrapPeer(m.peer, fmt.Errorf("%w: a message of %d elements has %d bytes", transport.ErrCorrupt, op.count, len(m.data)))
		}
		copy(op.out, m.data)
		op.unpack()
		op.peer, op.over = m.peer, true
		s.bytes -= len(m.data)
		s.strays = append(s.strays[:i], s.strays[i+1:]...)
		return true, nil
	}
	return false, nil
}

// others says with which tags messages have come from a peer that no receive has asked for.
func (s *stash) others(peer int) []string {
	var said []string
	for _, m := range s.strays {
		one := fmt.Sprintf("a message of rank %d with tag %d has come, which nothing receives", m.peer, m.call.Root)
		if m.off == len(m.data) && (peer == anyPeer || peer == m.peer) && len(said) < mostNamed && !slices.Contains(said, one) {
			said = append(said, one)
		}
	}
	return said
}

// keepStrays moves messages out of the way of receives that wait for others behind them.
func (g *Group) keepStrays() bool {
	moved := false
	for _, op := range g.pairs {
		if op.coll == plan.Recv && !op.pair.matched {
			moved = g.keepStraysFor(op) || moved
		}
	}
	return moved
}

// keepStraysFor does so for the lanes of every peer that a receive may be waiting for.
func (g *Group) keepStraysFor(op *operation) bool {
	first, last := op.peer, op.peer
	if op.peer == anyPeer {
		first, last = 0, g.size-1
	}
	moved := false
	for peer := first; peer <= last; peer++ {
		if peer == g.rank {
			continue
		}
		m, err := g.keepStray(peer)
		if err != nil {
			g.broken(op, wrapPeer(peer, err))
		}
		moved = moved || m
	}
	return moved
}

// keepStray takes what has arrived of the stray at the head of a peer's lane.
func (g *Group) keepStray(peer int) (bool, error) {
	m, ok := g.taken[peer].(*stray)
	if !ok {
		if g.taken[peer] != nil {
			return false, nil
		}
		h, err := g.links[peer].Head(p2pLane)
		if h == nil || err != nil || g.stash.bytes+int(min(h.Total, maxStash+1)) > maxStash {
			return false, nil // an error is for the receive that waits for the peer
		}
		m = &stray{peer: peer, call: h.Call, data: make([]byte, h.Total)}
		g.stash.bytes += len(m.data)
		g.stash.strays = append(g.stash.strays, m)
		g.taken[peer] = m
	}
	moved, err := g.fill(peer, m.data, &m.off)
	if errors.Is(classify(err), colligo.ErrPeerLost) { // the rest will not come: the receives find the link's error
		g.taken[peer] = nil
		return true, nil
	}
	if moved && m.off == len(m.data) {
		g.taken[peer] = nil
	}
	return moved, err
}
