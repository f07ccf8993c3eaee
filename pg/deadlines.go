package pg

import (
	"context"
	"errors"
	"time"
)

// limit sets an operation's deadline, once.
func (op *operation) limit() {
	if !op.deadline.IsZero() {
		return
	}
	op.began = time.Now()
	op.suspectAt = op.began.Add(suspicion)
	op.deadline = op.began.Add(op.lease.limit)
	if op.ctx != nil {
		if d, ok := op.ctx.Deadline(); ok {
			op.deadline = d
		}
	}
}

// within is how long an operation may take that is called now: until its context's deadline, where there is one.
func within(ctx context.Context, limit time.Duration) time.Duration {
	if ctx != nil {
		if d, ok := ctx.Deadline(); ok {
			return time.Until(d).Round(time.Millisecond)
		}
	}
	return limit
}

// expired returns the operation itself if it has had its time, or if its context was cancelled, with that cause.
func (op *operation) expired(now time.Time) (*operation, error) {
	switch {
	case op.ctx != nil && errors.Is(op.ctx.Err(), context.Canceled):
		return op, context.Cause(op.ctx)
	case !op.deadline.IsZero() && !now.Before(op.deadline):
		return op, nil
	}
	return nil, nil
}

// duePairs returns a time before which no send or receive is late, zero if none is pending. Those that are new stand at
// the end, so thousands that are pending cost nothing here. The time may be that of one which is over: then a look at
// all of them finds the next.
func (g *Group) duePairs() time.Time {
	for i := len(g.pairs) - 1; i >= 0 && g.pairs[i].deadline.IsZero(); i-- {
		g.pairs[i].limit()
		g.noteDue(g.pairs[i].deadline)
	}
	if len(g.pairs) == 0 {
		g.pairsDue = time.Time{}
	}
	return g.pairsDue
}

// noteDue notes a deadline.
func (g *Group) noteDue(deadline time.Time) {
	if g.pairsDue.IsZero() || deadline.Before(g.pairsDue) {
		g.pairsDue = deadline
	}
}

// expiredPair is expired for all sends and receives.
func (g *Group) expiredPair(now time.Time) (*operation, error) {
	if !g.cancelled.Load() && (g.pairsDue.IsZero() || now.Before(g.pairsDue)) {
		return nil, nil
	}
	g.pairsDue = time.Time{}
	for _, op := range g.pairs {
		if late, cause := op.expired(now); late != nil {
			return late, cause
		}
		if !op.deadline.IsZero() {
			g.noteDue(op.deadline)
		}
	}
	return nil, nil
}
