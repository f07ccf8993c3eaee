package pg

import (
	"errors"
	"time"

	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/transport"
)

// listen makes the group's end of the control channel. It is called before the mesh opens.
func (g *Group) listen() {
	g.control.Init(control.Config{Group: g.name, Rank: g.rank, Size: g.size, Log: g.log, Causes: causes, Fingerprints: g.detailed(),
		Describe: host.Describe, Number: func(at uint64) uint64 { return op.Seq(at).Number() }, Failed: g.Err, Wake: g.handler.wake})
	g.control.Handle(control.Abort, g.handler.takeOver)
	g.control.Handle(control.Called, (&events{g}).compare)
	g.control.Handle(control.Dump, func(peer int, _ *control.Message) { g.handler.dumpAsked(peer) })
}

// fail gives the group its first error; later ones change nothing. With tell the peers hear of it. The progress engine ends
// all pending operations at its next poll.
func (g *Group) fail(err error, tell bool) { g.failAt(err, g.sequenceOf(err), tell) }

// failAt ends the group at an operation with a place. Operations before it may still complete. It reports whether fewer of
// them may than before.
func (g *Group) failAt(err error, at op.Seq, tell bool) bool {
	s := &g.state
	s.mu.Lock()
	first := s.err == nil
	if first {
		s.err = err
	}
	changed := g.host.Abort(at, tell)
	if first {
		s.failing.Add(1)
		defer s.failing.Done()
	}
	s.mu.Unlock()
	if !changed {
		return false
	}
	g.handler.wake()
	g.control.Stir()
	if first && tell {
		g.log.Warn("group failed", "group", g.name, "rank", g.rank, "seq", at.Number(), "error", err)
		g.control.Tell(failureMessage(err, at))
	}
	if first {
		g.devices.watch.Refresh() // afterwards nothing counts as done any more
		g.handler.sever()
		g.handler.abortDevices(err)
		g.handler.after(err, at, tell)
	}
	return true
}

func clip(text string) string { return control.Clip(text) }

// onLost hears that a peer is gone; a mesh calls it from a goroutine of its own.
func (g *Group) onLost(peer int, err error) {
	g.forming.Departed.Add(peer, err)
	g.control.Lost(peer)
	g.log.Debug("peer gone", "group", g.name, "rank", g.rank, "peer", peer, "error", err)
	if errors.Is(err, transport.ErrGoodbye) {
		return // what it sent before may be all that is needed of it; if not, its link tells
	}
	g.host.Lost(peer, err)
	g.handler.wake()
	if g.devices.any() { // a kernel that waits for the peer has no link to tell it
		time.AfterFunc(host.Drain, func() { g.fail(host.Classify(&transport.PeerError{Peer: peer, Err: err}), true) })
	}
}
