package host

import (
	"errors"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// abort is when and at which operation a group failed.
type abort struct {
	seq  op.Seq
	at   time.Time
	over time.Time // when the progress engine first saw that Drain is over
}

// Abort ends pending operations, from the one at which the group failed. Operations before it may still complete for some
// time. A second call changes something only if it allows fewer of them, and with own: a failure of this rank's while
// another's is being drained. It reports whether it did.
func (b *Backend) Abort(at op.Seq, own bool) (changed bool) {
	a := b.abort.Load()
	if a != nil && (!own || at >= a.seq) {
		return false
	}
	b.abort.Store(&abort{seq: at, at: time.Now()})
	return true
}

// Drain is how long operations in flight may go on after a peer died or the group failed. Frames that the peers had sent may
// complete them.
const Drain = time.Second

// precedes reports whether the operation at hand comes before the one at which the group failed. All that it needs may then already be
// on its way.
func (b *Backend) precedes(a *abort) bool { return len(b.active) > 0 && b.active[0].Seq < a.seq }

// takesLate reports whether the operation at hand still takes what has come for it, though Drain is over. This rank may have been held up
// meanwhile. It looks until nothing moves, and no longer than Drain once more.
func (b *Backend) takesLate(a *abort) bool {
	now := time.Now()
	if a.over.IsZero() {
		a.over = now
	}
	return b.precedes(a) && now.Sub(a.over) < Drain
}

// drains reports whether there is such an operation, and time for it. Its own deadline ends that.
func (b *Backend) drains(a *abort) bool {
	if !b.precedes(a) {
		return false
	}
	now, due := time.Now(), b.active[0].Deadline()
	return now.Sub(a.at) < Drain && (due.IsZero() || now.Before(due))
}

// loss is a peer that has gone.
type loss struct {
	err *transport.PeerError
	at  time.Time
}

func (l *loss) classified() error { return Classify(l.err) }

// Lost notes that a peer has died.
func (b *Backend) Lost(peer int, err error) {
	b.lost.CompareAndSwap(nil, &loss{&transport.PeerError{Peer: peer, Err: err}, time.Now()})
}

// cut is the error of a link whose peer is gone.
type cut struct {
	err error
	at  time.Time
	seq op.Seq
}

// grace is how long a rank waits for word of the first cause when a link's peer is gone. A peer that failed tells so before
// it goes, on another channel.
const grace = 250 * time.Millisecond

// broken takes the error of a link. It fails the group at once, unless the peer is gone and may have told why.
func (b *Backend) broken(o *op.Op, err error) bool {
	if earlier := b.leftOver(err); earlier != nil {
		o.More().Failure = earlier
		return b.Group.Fail(earlier, op.SeqOf(earlier.Seq))
	}
	if b.abort.Load() != nil && errors.Is(err, transport.ErrClosed) {
		return b.Group.Fail(b.Group.Err(), 0) // a failed group has ended its links itself, over which nothing completes any more
	}
	located := b.locate(o, err)
	if !errors.Is(located, colligo.ErrPeerLost) {
		o.More().Failure = located
		return b.Group.Fail(located, o.Seq)
	}
	o.More().Late = located
	if b.cut.err == nil {
		b.cut = cut{located, time.Now(), collectiveOf(o)}
	}
	return false
}

// leftOver returns the error of a frame that was not taken in the collective to which it belongs. The ranks had called different things
// there, as with roots that differ. It is nil for other errors.
func (b *Backend) leftOver(err error) *colligo.OpError {
	var m *Mismatch
	if !errors.As(err, &m) || m.Theirs.Seq >= m.Ours.Seq {
		return nil
	}
	ours, ok := b.Group.Called(op.Seq(m.Theirs.Seq))
	if !ok || ours == m.Theirs {
		return nil
	}
	return b.failure(plan.Coll(ours.Coll), op.Seq(ours.Seq), m.Peer, &Mismatch{Peer: m.Peer, Ours: ours, Theirs: m.Theirs})
}

// failure makes the error of an operation that no step of a plan met.
func (b *Backend) failure(c plan.Coll, at op.Seq, peer int, cause error) *colligo.OpError {
	return &colligo.OpError{Ranks: b.Global, Group: b.Name, Op: c.String(), Seq: at.Number(), Rank: b.Rank, Peer: peer, Lane: colligo.NoRank,
		Step: colligo.NoRank, Err: cause}
}

// collectiveOf returns the sequence number of a collective. It is 0 for a send or receive, which goes on beside the
// collectives.
func collectiveOf(o *op.Op) op.Seq {
	if o.P2P() {
		return 0
	}
	return op.SeqOf(o.Seq.Number())
}

// locate says where in its plan an operation failed.
func (b *Backend) locate(o *op.Op, err error) error {
	e := b.failure(o.Coll, sequence(o), colligo.NoRank, Classify(err))
	e.What = o.What()
	var at *engine.Error
	if errors.As(err, &at) {
		e.Peer, e.Lane, e.Step, e.Err = at.Peer, at.Lane, at.Step, Classify(at.Err)
	}
	return e
}

// sequence returns the sequence number that an error names: a send or receive has none.
func sequence(o *op.Op) op.Seq {
	if o.P2P() {
		return 0
	}
	return o.Seq
}

// ownError is what a pending operation reports when the group has failed. It is the group's error if that is about this
// operation, else an error with it as the cause.
func (b *Backend) ownError(o *op.Op, cause error) error {
	r := o.Rare()
	if r.Failure != nil {
		return r.Failure
	}
	if r.Late != nil && (cause == r.Late || cause == b.cut.err && !follows(r.Late, cause)) {
		return r.Late
	}
	var e *colligo.OpError
	if errors.As(cause, &e) && e.Group == b.Name && e.Rank == b.Rank && e.Seq == o.Seq.Number() && e.Op == o.Coll.String() {
		return cause
	}
	return b.Group.Explain(o, sequence(o), cause, true)
}

// follows reports whether the loss that an operation met may follow from the one that failed the group: a peer that fails says goodbye.
func follows(loss, first error) bool {
	return errors.Is(loss, transport.ErrGoodbye) && !errors.Is(first, transport.ErrGoodbye)
}

// Classify gives an error of a transport its sentinel.
func Classify(err error) error {
	switch {
	case errors.Is(err, transport.ErrLost), errors.Is(err, transport.ErrGoodbye):
		return diagnose.WithClass(err, colligo.ErrPeerLost)
	case errors.Is(err, transport.ErrCorrupt):
		return diagnose.WithClass(err, colligo.ErrCorrupt)
	case errors.Is(err, transport.ErrClosed):
		return diagnose.WithClass(err, colligo.ErrClosed)
	}
	return err
}
