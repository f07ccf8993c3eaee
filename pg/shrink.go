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

// Shrink makes a group of the ranks of this one that are left: not excluded, and not known to be dead. They keep their
// order. It works when this group has failed, for its ranks meet in the store. If the rank that serves the store is gone,
// nothing can be done.
//
// Every rank that goes on calls it, with the same ranks excluded. A rank that neither comes nor is known to have died within
// ConnectTimeout is left behind. If it still comes it gets ErrNotMember. If more ranks die while the new group forms, the
// others try again without them.
//
// The new group has the name of the first group that was shrunk, "@" and the epoch. The epoch counts up with every try. A
// group is shrunk once; to lose more ranks, shrink the new one. This group remains to be closed, and an error leaves it as
// it was. c10d: shrink_group.
func (g *Group) Shrink(ctx context.Context, exclude ...int) (*Group, error) {
	if !g.IsMember() {
		return nil, fmt.Errorf("pg: shrink: %w", ErrNotMember)
	}
	if speaksGloo(g) {
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
			return nil, fmt.Errorf("pg: shrink group %s to %s: %w", g.name, e.Name, err)
		}
		n, err := openShrunk(ctx, g, e, members)
		if err == nil {
			return n, nil
		}
		e.AbandonMembers()
		if !errors.Is(err, colligo.ErrPeerLost) || ctx.Err() != nil {
			return nil, fmt.Errorf("pg: shrink group %s: %w", g.name, err)
		}
		g.log.Warn("ranks were lost while a smaller group formed", "group", e.Name, "rank", g.rank, "error", err)
		expected = members
	}
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
	c := g.config
	c.Timeout = g.Timeout()
	ctx, cancel := context.WithTimeoutCause(ctx, c.ConnectTimeout, errConnect)
	defer cancel()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	stop := e.WhenLost(members, func(peer int) {
		lost(diagnose.WithClass(fmt.Errorf("rank %d of group %s was lost meanwhile", peer, g.name), colligo.ErrPeerLost))
	})
	defer stop()
	m := e.Member(members)
	n, err := open(ctx, g.job, c, m, true)
	if err != nil {
		return nil, fmt.Errorf("%s: rank %d of %d: %w", m.Name, m.Rank, len(members), bootstrap.Because(ctx, err))
	}
	e.Settle(&n.forming)
	return n, nil
}
