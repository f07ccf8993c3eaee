package pg

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/transport"
)

// note is a message on the control channel.
type note struct {
	Kind  string // one of the kinds below
	Token uint64 `json:",omitempty"` // of a question and its answer
	Seq   uint64 `json:",omitempty"` // of the operation: failed, or entered last
	Call  string `json:",omitempty"` // what was called, as describe prints it
	Cause string `json:",omitempty"` // name of a sentinel, see causes
	Text  string `json:",omitempty"` // the error
	Blame []int  `json:",omitempty"` // whose doing it is, as far as the sender can tell

	Done  uint64 `json:",omitempty"` // the last collective that is complete
	Sends []int  `json:",omitempty"` // to whom the sender of the note has sends pending
	Recvs []int  `json:",omitempty"` // and from whom receives, anyPeer among them

	Print *fingerprint `json:",omitempty"` // of what the sender calls
}

const (
	noteAbort  = "abort"  // the sender's group has failed
	noteWhere  = "where"  // which operation have you entered?
	noteHere   = "here"   // the answer
	noteCalled = "called" // what the sender has called in an operation that stands still
	notePrint  = "print"  // what the sender calls, at debug level DETAIL
	noteDump   = "dump"   // write what is recorded
	noteGate   = "gate"   // of a monitored barrier
)

// causes are the sentinels that travel by name.
var causes = map[string]error{
	"timeout": colligo.ErrTimeout, "mismatch": colligo.ErrMismatch, "lost": colligo.ErrPeerLost,
	"closed": colligo.ErrClosed, "corrupt": colligo.ErrCorrupt, "aborted": ErrAborted,
}

func causeName(err error) string {
	if errors.Is(err, ErrAborted) {
		return "aborted" // whatever the reason was
	}
	for name, sentinel := range causes {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	return ""
}

// reported is the group's error on a rank that learned of it from a peer.
type reported struct {
	peer     int
	text     string
	sentinel error
	blames   []int
}

// abortNote tells the peers of the group's error.
func abortNote(err error, seq uint64) note {
	ranks := blamed(err)
	return note{Kind: noteAbort, Seq: seq, Cause: causeName(err), Text: clip(err.Error()), Blame: ranks[:min(len(ranks), mostBlamed)]}
}

// takeOver is the group's error as a peer has told it.
func (g *Group) takeOver(peer int, n note) {
	blames := slices.DeleteFunc(n.Blame, func(rank int) bool { return rank < 0 || rank >= g.size })
	g.failAt(&reported{peer, n.Text, causes[n.Cause], blames}, n.Seq, false)
}

// Error says who reported what.
func (e *reported) Error() string { return fmt.Sprintf("rank %d reported: %s", e.peer, e.text) }

// Unwrap returns the sentinel, nil if there is none.
func (e *reported) Unwrap() error { return e.sentinel }

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
	g.gate.stir()
	if first && tell {
		g.log.Warn("group failed", "group", g.name, "rank", g.rank, "seq", numberOf(seq), "error", err)
		g.tell(abortNote(err, seq))
	}
	if first {
		g.answers.hurry()
		g.settleDevices(err)
		g.after(err, seq, tell)
	}
	return true
}

// clip shortens a text so that a note with it is no longer than a note may be, escapes included.
func clip(text string) string {
	const most = transport.MaxNote / 8
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// sequenceOf returns the place of the collective that an error is about, 0 if it is none of this group's.
func (g *Group) sequenceOf(err error) uint64 {
	var e *colligo.OpError
	if errors.As(err, &e) && e.Group == g.name {
		return e.Seq << placeBits
	}
	return 0
}

// tell sends a note to every peer that still listens.
func (g *Group) tell(n note) {
	b, err := json.Marshal(n)
	if err != nil {
		panic("pg: note: " + err.Error())
	}
	for peer := range g.size {
		if peer == g.rank {
			continue
		}
		if err := g.mesh.Notify(peer, b); err != nil {
			g.log.Debug("note not sent", "group", g.name, "rank", g.rank, "peer", peer, "error", err)
		}
	}
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

// onNote takes a control note; a mesh calls it from a goroutine of its own.
func (g *Group) onNote(peer int, b []byte) {
	var n note
	if err := json.Unmarshal(b, &n); err != nil {
		g.log.Warn("unreadable note", "group", g.name, "rank", g.rank, "peer", peer, "error", err)
		return
	}
	switch n.Kind {
	case noteAbort:
		g.takeOver(peer, n)
	case noteWhere:
		g.answer(peer, n.Token)
	case noteHere:
		g.answers.put(peer, n)
	case noteCalled:
		g.compare(peer, n)
	case noteGate:
		g.gate.put(g.rank, peer, n)
	case notePrint:
		if n.Print != nil && g.detailed() {
			g.prints.put(g.size, peer, n.Seq, n.Print)
			g.wake()
		}
	case noteDump:
		g.dumpAsked(peer)
	default:
		g.log.Warn("unknown note", "group", g.name, "rank", g.rank, "peer", peer, "kind", n.Kind)
	}
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
	g.forming.Departed.Add(peer, err)
	g.gate.lost(peer)
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
