package pg

import (
	"errors"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/transport"
)

// causes are the sentinels that go between ranks. An aborted group is that, whatever the reason was.
var causes = control.Causes{{Name: "aborted", Sentinel: ErrAborted}, {Name: "timeout", Sentinel: colligo.ErrTimeout},
	{Name: "mismatch", Sentinel: colligo.ErrMismatch}, {Name: "lost", Sentinel: colligo.ErrPeerLost},
	{Name: "closed", Sentinel: colligo.ErrClosed}, {Name: "corrupt", Sentinel: colligo.ErrCorrupt}}

// listen makes the group's end of the control channel. It is called before the mesh opens.
func (g *Group) listen() {
	g.control.Init(control.Config{Group: g.name, Rank: g.rank, Size: g.size, Log: g.log, Causes: causes, Fingerprints: g.detailed(),
		Describe: describe, Number: numberOf, Failed: g.Err, Wake: g.wake})
	g.control.Handle(control.Abort, g.takeOver)
	g.control.Handle(control.Called, g.compare)
	g.control.Handle(control.Dump, func(peer int, _ *control.Message) { g.dumpAsked(peer) })
}

// failureMessage tells the peers of the group's error.
func failureMessage(err error, seq uint64) *control.Message {
	return causes.Failure(err, seq, suspectsOf(err))
}

// takeOver ends the group with the error that a peer has told of.
func (g *Group) takeOver(peer int, m *control.Message) {
	g.failAt(causes.Reported(peer, g.size, m), m.Seq, false)
}

// classed gives an error of a lower layer the sentinel that callers branch on, without changing its text.
type classed struct{ err, class error }

// Error is the lower layer's.
func (e *classed) Error() string { return e.err.Error() }

// Unwrap returns both.
func (e *classed) Unwrap() []error { return []error{e.class, e.err} }

func classify(err error) error {
	switch {
	case errors.Is(err, transport.ErrLost), errors.Is(err, transport.ErrGoodbye):
		return &classed{err, colligo.ErrPeerLost}
	case errors.Is(err, transport.ErrCorrupt):
		return &classed{err, colligo.ErrCorrupt}
	case errors.Is(err, transport.ErrClosed):
		return &classed{err, colligo.ErrClosed}
	}
	return err
}

// fail gives the group its first error; later ones change nothing. With tell the peers hear of it. Whoever drives ends
// all pending operations at its next round.
func (g *Group) fail(err error, tell bool) { g.failAt(err, g.sequenceOf(err), tell) }

// failAt is fail with the sequence number of the operation that failed. Operations before it may still complete. It
// reports whether fewer of them may than before.
func (g *Group) failAt(err error, seq uint64, tell bool) bool {
	g.mu.Lock()
	first := g.err == nil
	if first {
		g.err = err
	}
	a := g.abort.Load()
	changed := a == nil || tell && seq < a.seq // a failure of our own while others' is being drained may end the draining
	if changed {
		g.abort.Store(&abort{seq, time.Now()})
	}
	if first {
		g.failing.Add(1)
		defer g.failing.Done()
	}
	g.mu.Unlock()
	if !changed {
		return false
	}
	g.wake()
	g.control.Stir()
	if first && tell {
		g.log.Warn("group failed", "group", g.name, "rank", g.rank, "seq", numberOf(seq), "error", err)
		g.control.Tell(failureMessage(err, seq))
	}
	if first {
		g.settleDevices(err)
		g.after(err, seq, tell)
	}
	return true
}

func clip(text string) string { return control.Clip(text) }

// sequenceOf returns the place of the collective that an error is about, 0 if it is none of this group's.
func (g *Group) sequenceOf(err error) uint64 {
	var e *colligo.OpError
	if errors.As(err, &e) && e.Group == g.name {
		return e.Seq << placeBits
	}
	return 0
}

// locate says where in its plan an operation failed.
func (g *Group) locate(op *operation, err error) error {
	e := &colligo.OpError{Group: g.name, Op: op.coll.String(), Seq: numberOf(op.sequence()), What: op.what(), Rank: g.rank,
		Peer: colligo.NoRank, Lane: colligo.NoRank, Step: colligo.NoRank, Err: classify(err)}
	var at *engine.Error
	if errors.As(err, &at) {
		e.Peer, e.Lane, e.Step, e.Err = at.Peer, at.Lane, at.Step, classify(at.Err)
	}
	return e
}

// abort is when and at which operation a group failed.
type abort struct {
	seq uint64
	at  time.Time
}

// drains reports whether the operation at hand is one before the one at which the group failed, so that all it needs may
// already be on its way. Its own deadline ends that.
func (g *Group) drains(a *abort) bool {
	if len(g.active) == 0 || g.active[0].seq >= a.seq {
		return false
	}
	now, due := time.Now(), g.active[0].deadline
	return now.Sub(a.at) < drain && (due.IsZero() || now.Before(due))
}

// cut is the error of a link whose peer is gone.
type cut struct {
	err error
	at  time.Time
}

// grace is how long a rank waits for word of the first cause when a link's peer is gone: a peer that failed tells so
// before it goes, on another channel.
const grace = 250 * time.Millisecond

// broken takes the error of a link. It fails the group at once, unless the peer is gone and may have told why.
func (g *Group) broken(op *operation, err error) bool {
	located := g.locate(op, err)
	if !errors.Is(located, colligo.ErrPeerLost) {
		op.failure = located
		return g.failAt(located, op.seq, true)
	}
	op.late = located
	if g.cut.err == nil {
		g.cut = cut{located, time.Now()}
	}
	return false
}

// loss is a peer that has gone.
type loss struct {
	peer int
	err  error
	at   time.Time
}

// drain is how long operations in flight may go on after a peer died: what it had sent may complete them.
const drain = time.Second

// onLost hears that a peer is gone; a mesh calls it from a goroutine of its own.
func (g *Group) onLost(peer int, err error) {
	g.form.gone.add(peer, err)
	g.control.Lost(peer)
	g.log.Debug("peer gone", "group", g.name, "rank", g.rank, "peer", peer, "error", err)
	if errors.Is(err, transport.ErrGoodbye) {
		return // what it sent before may be all that is needed of it; if not, its link tells
	}
	g.died.CompareAndSwap(nil, &loss{peer, err, time.Now()})
	g.wake()
	if g.backends.any() { // a kernel that waits for the peer has no link to tell it
		time.AfterFunc(drain, func() { g.fail(classify(&transport.PeerError{Peer: peer, Err: err}), true) })
	}
}

// wake ends the sleep of whoever drives. Events can come before the mesh is open.
func (g *Group) wake() {
	if m := g.ready.Load(); m != nil {
		(*m).Wake()
	}
}
