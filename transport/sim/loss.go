package sim

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// leave ends a mesh: its own calls report own, and its peers hear of reason behind everything it has sent. The caller
// pumps.
func (n *Net) leave(m *Mesh, own, reason error) {
	if m.failed() != nil {
		return
	}
	m.fail.Store(&own)
	m.Wake()
	g := m.group
	if g.open--; g.open == 0 {
		delete(n.groups, g)
	}
	at := n.now()
	if !n.direct.Load() {
		at += max(n.slowed(n.config.MaxDelay, m.global, -1), time.Nanosecond)
	}
	heap.Push(&n.queue, &event{at: max(at, m.last), kind: isGone, src: m.global, dst: n.config.Size, from: m,
		err: &transport.PeerError{Peer: m.rank, Err: reason}})
}

// gone tells all ranks that one has left. Ranks that cannot hear it now are told when they can.
func (n *Net) gone(e *event) {
	g := e.from.group
	if !n.silent() {
		n.trace(e)
		g.gone[e.from.rank].Store(e.err)
		for _, to := range e.from.watchers {
			to.poke()
		}
		for _, to := range g.listeners {
			if to != e.from && (len(g.cuts) == 0 || g.cuts[pair{e.from.rank, to.rank}] == nil) {
				to.post(notice{peer: e.from.rank, err: e.err})
			}
		}
		return
	}
	for _, to := range g.meshes {
		if to != e.from && to.failed() == nil {
			n.happen(&event{at: e.at, kind: isCut, src: e.src, dst: to.global, from: e.from, to: to, err: e.err})
		}
	}
}

// cut has one rank lose another.
func (n *Net) cut(from, to *Mesh, err *transport.PeerError) {
	g, p := from.group, pair{from.rank, to.rank}
	if g.cuts[p] != nil || g.gone[from.rank].Load() != nil {
		return
	}
	g.cuts[p] = err
	to.mu.Lock()
	l := to.links[from.rank]
	to.mu.Unlock()
	if l != nil {
		l.cut.Store(err)
	}
	to.post(notice{peer: from.rank, err: err})
	to.poke()
}

// kill ends every mesh of a rank as the death of its process would.
func (n *Net) kill(global int) {
	own := fmt.Errorf("sim: rank %d was killed: %w", global, transport.ErrClosed)
	for _, g := range n.forming {
		for _, m := range g.meshes {
			if m != nil && m.global == global {
				g.fail(fmt.Errorf("sim: rank %d: %w", m.rank, transport.ErrLost))
				delete(n.forming, g.id)
			}
		}
	}
	for g := range n.groups {
		for _, m := range g.meshes {
			if m.global == global {
				n.leave(m, own, transport.ErrLost)
			}
		}
	}
}

// dieAfter kills a rank when it has sent so many more frames.
func (n *Net) dieAfter(global int, frames uint64) {
	if frames == 0 {
		n.kill(global)
		return
	}
	n.killAfter[global] = frames
}

// sever has ranks on different sides lose one another. The caller pumps.
func (n *Net) sever(side map[int]int) {
	for g := range n.groups {
		for i, a := range g.meshes {
			for _, b := range g.meshes[i+1:] {
				n.part(a, b, side)
				n.part(b, a, side)
			}
		}
	}
}

// part has one rank lose another if both live on different sides.
func (n *Net) part(from, to *Mesh, side map[int]int) {
	if side[from.global] == side[to.global] || from.failed() != nil || to.failed() != nil {
		return
	}
	heap.Push(&n.queue, &event{at: n.clock, kind: isCut, src: from.global, dst: to.global, from: from, to: to,
		err: &transport.PeerError{Peer: from.rank, Err: transport.ErrLost}})
}
