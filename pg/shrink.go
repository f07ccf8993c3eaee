package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
)

// Regroup goes on after a failure. It ends this group on all ranks if it has not failed yet. Then it makes a group of the ranks
// that are left, as Shrink does, and closes this group. Between a failure and its next collective a program does nothing else about
// groups. Its own state is another matter: an operation that failed has left its outputs undefined, and ranks may be one step
// apart.
//
// Every rank that goes on calls it when an operation has failed with colligo.ErrPeerLost, with the same ranks excluded. A rank
// that has not met the failure meets it in its next operation. Groups that were made of this one are the program's to close. Shrink's
// limits hold. Closing this group takes up to a second more if one of its ranks stands still.
//
// With an error this rank cannot go on: the store is gone, the others have gone on without it, or the context has ended. Then
// this group remains to be closed. c10d: abort, shrink_group and destroy_process_group.
func Regroup(ctx context.Context, g *Group, exclude ...int) (*Group, error) {
	if !g.IsMember() {
		return nil, fmt.Errorf("pg: regroup: %w", ErrNotMember)
	}
	g.Abort(errRegroup) // without effect on a group that has failed or is closed
	n, err := g.Shrink(ctx, exclude...)
	if err != nil {
		return nil, err
	}
	if err := g.Close(); err != nil && !errors.Is(err, g.Err()) { // with CloseBarrier it says why the group had failed
		g.log.Warn("a group that was regrouped could not give everything back", "group", g.name, "rank", g.rank, "error", err)
	}
	return n, nil
}

// errRegroup is why a group ends that has not failed when it is regrouped.
var errRegroup = errors.New("regrouped")

// Shrink makes a group of the ranks of this one that are left: not excluded, and not known to be dead. They keep their
// order. It works when this group has failed, for its ranks meet in the store. If the rank that serves the store is gone, or stands still,
// nothing can be done. Regroup does all that a program needs after a failure.
//
// Every rank that goes on calls it, with the same ranks excluded. A rank that neither comes nor is known to have died within
// ConnectTimeout is left behind. If it still comes it gets ErrNotMember. The ranks that have come have ConnectTimeout once more to link.
// If more ranks die or give up while the new group forms, the others try again without them.
//
// The new group has the name of the first group that was shrunk, "@" and the epoch. The epoch counts up with every try. A
// group is shrunk once; to lose more ranks, shrink the new one. This group remains to be closed, which this rank may do as soon
// as Shrink has returned. An error leaves the group as it was. c10d: shrink_group.
func (g *Group) Shrink(ctx context.Context, exclude ...int) (*Group, error) {
	if !g.IsMember() {
		return nil, fmt.Errorf("pg: shrink: %w", ErrNotMember)
	}
	if speaksTorch(g) {
		return nil, fmt.Errorf("pg: shrink: %w", errors.ErrUnsupported)
	}
	expected, err := g.remaining(exclude)
	if err != nil {
		return nil, fmt.Errorf("pg: shrink group %s: %w", g.name, err)
	}
	for {
		e := g.forming.NextEpoch()
		members, err := e.Meet(ctx, expected, g.config.ConnectTimeout)
		if err == nil && !slices.Contains(members, g.ranks[g.rank]) {
			err = fmt.Errorf("ranks %v of the default group have gone on without this one: %w", members, ErrNotMember)
		}
		if err != nil {
			e.Abandon()
			e.Out()
			return nil, fmt.Errorf("pg: shrink group %s to %s: %w", g.name, e.Name, g.job.Explain(err))
		}
		n, err := openShrunk(ctx, g, e, members)
		if err == nil {
			return n, nil
		}
		e.AbandonMembers()
		if !lostMeanwhile(err) || ctx.Err() != nil {
			e.Out()
			return nil, fmt.Errorf("pg: shrink group %s: %w", g.name, err)
		}
		g.log.Warn("ranks were lost while a smaller group formed", "group", e.Name, "rank", g.rank, "error", err)
		expected = members
	}
}

// lostMeanwhile reports whether a smaller group has not formed because of one rank, without which it may form. That rank was lost,
// or has given up for a reason of its own.
func lostMeanwhile(err error) bool {
	var other *bootstrap.GaveUp
	return errors.Is(err, colligo.ErrPeerLost) || errors.As(err, &other) && !other.Late
}

// remaining returns the ranks that are to go on, by their numbers in the default group.
func (g *Group) remaining(exclude []int) ([]int, error) {
	rest, err := g.forming.Remaining(exclude)
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	if err == nil && g.state.closed {
		return nil, colligo.ErrClosed
	}
	return rest, err
}

// openShrunk links the members. A member that this group loses meanwhile is not waited for. Members that it had lost before
// and that came nevertheless are.
func openShrunk(ctx context.Context, g *Group, e *bootstrap.Epoch, members []int) (*Group, error) {
	c := withTimeout(g)
	ctx, cancel := context.WithTimeoutCause(ctx, c.ConnectTimeout, errConnect)
	defer cancel()
	m := e.Member(members)
	n, err := open(ctx, g.job, c, m, opening{barrier: true, leaving: e.GoOn, broken: func() error {
		if peer := e.Lost(members); peer != colligo.NoRank {
			return diagnose.WithClass(fmt.Errorf("rank %d of group %s was lost meanwhile", peer, g.name), colligo.ErrPeerLost)
		}
		return nil
	}})
	if err != nil {
		return nil, fmt.Errorf("%s: rank %d of %d: %w", m.Name, m.Rank, len(members), bootstrap.Because(ctx, err))
	}
	e.Settle(&n.forming)
	return n, nil
}
