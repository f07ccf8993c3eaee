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
	compare := (&events{g}).compare
	g.control.Init(control.Config{Group: g.name, Rank: g.rank, Size: g.size, Log: g.log, Causes: causes, Fingerprints: g.detailed(),
		Describe: host.Describe, Common: op.Common, Number: func(at uint64) uint64 { return op.Seq(at).Number() }, Failed: g.Err, Left: func() []int { return g.forming.Departed.Left() }, Wake: g.handler.wake, Compare: compare,
		Inquire: func(f func(*control.Standing, bool)) bool {
			return g.host.Inquire(func(s host.Standing) { f(standing(s), s.Failed) })
		}})
	p := &g.parting
	p.member, p.failed, p.limit, p.departed = &g.member, g.Err, g.limits.now, g.forming.Departed.Has
	p.tell, p.tellEach = g.control.Tell, g.control.TellEach
	p.fail = func(err error, at op.Seq) { g.failAt(err, at, true) }
	p.called = func() op.Seq {
		g.state.mu.Lock()
		defer g.state.mu.Unlock()
		return g.state.seq
	}
	g.control.Handle(control.Abort, g.handler.takeOver)
	g.control.Handle(control.Called, func(peer int, m *control.Message) {
		compare(peer, m)
		g.parting.missed(peer, m)
	})
	g.control.Handle(control.Parting, g.parting.heard)
	g.control.Handle(control.Leaving, func(peer int, m *control.Message) { hasLeft(&g.devices.watch, peer, m) })
	g.control.Handle(control.Dump, func(peer int, _ *control.Message) { g.handler.dumpAsked(peer) })
}

// standing is where a collective stands, as it goes to peers; nil where none does.
func standing(s host.Standing) *control.Standing {
	if s.At == 0 {
		return nil
	}
	return &control.Standing{At: uint64(s.At), From: s.From, Sent: s.Sent, Got: s.Got}
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
		s.err, s.errAt = err, time.Now()
		g.handler.sound.end(err)
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
	if first {
		g.log.Warn("group failed", "group", g.name, "rank", g.rank, "seq", at.Number(), "error", err, "dump", g.handler.dumpPath(err))
	}
	if first && tell {
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
	if g.devices.opening.Load() || g.devices.any() { // a kernel that waits for the peer has no link to tell it
		time.AfterFunc(host.Drain, func() { g.fail(host.Classify(&transport.PeerError{Peer: peer, Err: err}), true) })
	}
}
