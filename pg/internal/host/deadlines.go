package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// stalled is how long a collective, or the oldest message, stands still before the group hears of it. It hears of it again after twice
// the time, and so on.
const stalled = 2 * time.Second

// lingers is how long a collective may take before the group hears that it is not over. A note to one peer costs little beside it.
const lingers = 20 * time.Millisecond

// pendingSince is when a message began to wait.
type pendingSince struct {
	since time.Time // when it began
	tell  time.Time // when the group hears of it next
}

// nearest returns the earliest deadline of all pending operations, and sets deadlines not yet known. Where a peer or the
// group has ended, it returns until when to wait for news of the cause.
func (b *Backend) nearest() time.Time {
	var first time.Time
	earlier := func(t time.Time) {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	if b.cut.err != nil {
		earlier(b.cut.at.Add(grace))
	}
	if since := b.inquiries.since; !since.IsZero() {
		earlier(since.Add(still))
	}
	if a := b.abort.Load(); a != nil {
		earlier(a.at.Add(Drain))
		if len(b.active) > 0 {
			b.clock(b.active[0])
			earlier(b.active[0].Deadline())
		}
		return first
	}
	if l := b.lost.Load(); l != nil {
		earlier(l.at.Add(Drain))
	}
	if len(b.active) > 0 {
		o := b.active[0]
		b.clock(o)
		earlier(o.Deadline())
		earlier(b.run.stalledAt)
	}
	if due := b.dueMessages(); !due.IsZero() {
		earlier(due)
	}
	if tell := b.longest.tell; !tell.IsZero() {
		earlier(tell)
	}
	return first
}

// clock has the limit of the collective at hand count from now on, unless it does already.
func (b *Backend) clock(o *op.Op) {
	if o.Clocked().IsZero() {
		o.Clock(time.Now())
	}
	if b.run.stalledAt.IsZero() {
		b.run.stalledAt = o.Clocked().Add(lingers)
	}
}

// stands tells the group that the collective at hand is not over.
func (b *Backend) stands(o *op.Op, now time.Time) {
	since := o.Clocked()
	if now.Sub(since) < stalled {
		b.run.stalledAt = since.Add(stalled)
		b.Group.Lingers(o)
		return
	}
	b.run.stalledAt = now.Add(now.Sub(since))
	b.Group.Stalled(o)
}

// expired fails the group if a deadline has passed or a context was cancelled.
func (b *Backend) expired() bool {
	var late *op.Op
	var cause error
	now := time.Now()
	if b.inquired.Load() {
		b.inquiry(now)
	}
	if b.cut.err != nil && now.Sub(b.cut.at) >= grace {
		return b.Group.Fail(b.cut.err, b.cut.seq)
	}
	if b.abort.Load() != nil {
		return false // operations before the one that failed may still complete
	}
	if len(b.active) > 0 {
		o := b.active[0]
		if over, why := o.Expired(now); over {
			late, cause = o, why
		} else if at := b.run.stalledAt; !at.IsZero() && !now.Before(at) {
			b.stands(o, now)
		}
	}
	if late == nil {
		b.tellStanding(now)
		late, cause = b.expiredMessage(now)
	}
	if l := b.lost.Load(); l != nil && now.Sub(l.at) >= Drain {
		at, err := b.explainPending(Classify(l.err))
		b.Group.Fail(err, at)
		return true
	}
	if late == nil && b.cancelled.Load() {
		if late = b.called(b.expire.Swap(nil)); late == nil {
			late, cause = b.givenUp()
		}
	}
	if late == nil {
		return false
	}
	if cause != nil {
		late.More().Late = b.Group.Explain(late, sequence(late), cause, false)
		b.Group.Fail(late.Rare().Late, collectiveOf(late))
	} else {
		b.Group.Late(late)
	}
	return true
}

// called returns a pending operation that is o, or one of the block that o stands for, nil if there is none.
func (b *Backend) called(o *op.Op) *op.Op {
	if o == nil {
		return nil
	}
	is := func(x *op.Op) bool { return x == o || x.Rare().Block != nil && &x.Rare().Block.Op == o }
	for _, x := range b.active {
		if is(x) {
			return x
		}
	}
	for _, m := range b.messages {
		if is(m.Op) {
			return m.Op
		}
	}
	return nil
}

// givenUp returns a collective that waits for its turn though its context has ended, and why.
func (b *Backend) givenUp() (*op.Op, error) {
	for _, o := range b.active[min(1, len(b.active)):] {
		if o.Rare().Stop == nil || o.Ctx.Err() == nil {
			continue
		}
		err := fmt.Errorf("waited for %s: %w", Describe(b.active[0].Identity(b.ID)), context.Cause(o.Ctx))
		if errors.Is(o.Ctx.Err(), context.DeadlineExceeded) {
			err = diagnose.WithClass(err, colligo.ErrTimeout)
		}
		return o, err
	}
	return nil, nil
}

// explainPending words a cause that is not about one operation as the failure of the first that is pending.
func (b *Backend) explainPending(cause error) (at op.Seq, err error) {
	var first *op.Op
	if len(b.active) > 0 {
		first = b.active[0]
	} else if len(b.messages) > 0 {
		first = b.messages[0].Op
	}
	if first == nil {
		return 0, cause
	}
	return collectiveOf(first), b.Group.Explain(first, sequence(first), cause, false)
}

// Waiting returns the peers that an operation waits for. Only the goroutine that runs the progress engine calls it.
func (b *Backend) Waiting(o *op.Op) []int {
	if o.P2P() {
		return []int{o.Posted()}
	}
	peers := b.run.engine.Waiting()
	if b.worker == nil {
		return peers
	}
	peers = append(peers, b.worker.waiting()...)
	slices.Sort(peers)
	return slices.Compact(peers)
}

// dueMessages returns a time before which no send or receive is late, zero if none is pending. New messages stand at the
// end, so thousands of pending ones cost nothing here. The time may be that of a message which is over. Then a look at all
// of them finds the next.
func (b *Backend) dueMessages() time.Time {
	now := time.Time{}
	for i := len(b.messages) - 1; i >= 0 && b.messages[i].Clocked().IsZero(); i-- {
		if now.IsZero() {
			now = time.Now()
		}
		b.messages[i].Clock(now)
		b.noteDue(b.messages[i].Deadline())
	}
	if len(b.messages) == 0 {
		b.due, b.longest = time.Time{}, pendingSince{}
	} else {
		b.oldest()
	}
	return b.due
}

// noteDue notes a deadline.
func (b *Backend) noteDue(deadline time.Time) {
	if b.due.IsZero() || deadline.Before(b.due) {
		b.due = deadline
	}
}

// oldest notes which message has been pending for longest. dueMessages has just set the clocks of all.
func (b *Backend) oldest() {
	if since := b.messages[0].Clocked(); since != b.longest.since {
		b.longest = pendingSince{since, since.Add(stalled)}
	}
}

// tellStanding tells the group of the oldest message if that stands still.
func (b *Backend) tellStanding(now time.Time) {
	s := &b.longest
	if len(b.messages) == 0 || s.tell.IsZero() || now.Before(s.tell) || b.messages[0].Clocked() != s.since {
		return
	}
	s.tell = now.Add(now.Sub(s.since))
	b.Group.Stalled(b.messages[0].Op)
}

// expiredMessage returns a send or receive that is late or whose context was cancelled, with that cause.
func (b *Backend) expiredMessage(now time.Time) (*op.Op, error) {
	if !b.cancelled.Load() && (b.due.IsZero() || now.Before(b.due)) {
		return nil, nil
	}
	b.due = time.Time{}
	for _, m := range b.messages {
		if late, cause := m.Expired(now); late {
			return m.Op, cause
		}
		if d := m.Deadline(); !d.IsZero() {
			b.noteDue(d)
		}
	}
	return nil, nil
}
