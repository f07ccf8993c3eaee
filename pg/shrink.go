package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store"
)

// Shrink makes a group of those ranks of this one that are left: not excluded, and not known to be dead. It works when
// this group has failed, for its ranks meet in the store; where a rank serves the store and is gone, nothing can be done.
// Every rank that goes on calls it, with the same ranks excluded; they keep their order. Who has neither come within
// ConnectTimeout nor died by then is left behind, and gets ErrNotMember should it still come. If more die while the new group
// forms, the others try again without them.
//
// The new group has the name of the first group that was shrunk, "@" and the epoch, which counts up with every try. A group is
// shrunk once; to lose more ranks shrink the new one. This group remains to be closed. c10d: shrink_group.
func (g *Group) Shrink(ctx context.Context, exclude ...int) (*Group, error) {
	if !g.IsMember() {
		return nil, fmt.Errorf("pg: shrink: %w", ErrNotMember)
	}
	expected, err := g.remaining(exclude)
	if err != nil {
		return nil, fmt.Errorf("pg: shrink group %s: %w", g.name, err)
	}
	for {
		o, before := g.nextEpoch(), g.form.gone.peers()
		s, own := store.NewPrefix(storePrefix(o.name), g.world.store), []string{hereKey(g.ranks[g.rank])}
		members, err := g.meetSurvivors(ctx, s, expected)
		if err != nil {
			g.world.litter(s, own)
			return nil, fmt.Errorf("pg: shrink group %s to %s: %w", g.name, o.name, err)
		}
		n, err := g.openShrunk(ctx, o, members, before)
		if err == nil {
			return n, nil
		}
		g.world.litter(s, append(own, g.traces()...))
		if !errors.Is(err, colligo.ErrPeerLost) || ctx.Err() != nil {
			return nil, fmt.Errorf("pg: shrink group %s: %w", g.name, err)
		}
		g.log.Warn("ranks were lost while a smaller group formed", "group", o.name, "rank", g.rank, "error", err)
		expected = members
	}
}

// remaining returns the ranks that are to go on, by their numbers in the default group.
func (g *Group) remaining(exclude []int) ([]int, error) {
	for _, r := range exclude {
		if r < 0 || r >= g.size {
			return nil, fmt.Errorf("rank %d of %d is excluded", r, g.size)
		}
		if r == g.rank {
			return nil, fmt.Errorf("rank %d excludes itself", r)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, colligo.ErrClosed
	}
	before := g.form.expected
	if before == nil {
		before = g.ranks
	}
	var rest []int
	for _, global := range before {
		if !slices.Contains(exclude, g.find(global)) {
			rest = append(rest, global)
		}
	}
	return rest, nil
}

// nextEpoch counts up.
func (g *Group) nextEpoch() origin {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.form.epoch++
	return origin{name: fmt.Sprintf("%s@%d", g.form.root, g.form.epoch), root: g.form.root, epoch: g.form.epoch}
}

// The keys of an epoch, in the new group's part of the store.
const membersKey = "members"

func hereKey(global int) string { return fmt.Sprintf("here/%d", global) }

// traces are the keys of an epoch that stay beside those that a rank takes away itself.
func (g *Group) traces() []string {
	keys := []string{membersKey}
	for _, peer := range g.form.gone.peers() {
		keys = append(keys, hereKey(g.ranks[peer]))
	}
	return keys
}

// meetSurvivors says in the store that this rank is there, and returns those of the expected ranks that go on: what the
// first has decided for whom all have either come or died, or whose patience has ended.
func (g *Group) meetSurvivors(ctx context.Context, s store.Store, expected []int) ([]int, error) {
	if err := s.Set(ctx, hereKey(g.ranks[g.rank]), nil); err != nil {
		return nil, fmt.Errorf("the store cannot be reached: %w", err)
	}
	patience := time.Now().Add(g.config.ConnectTimeout)
	for slice := 5 * time.Millisecond; ; slice = min(2*slice, 200*time.Millisecond) {
		here, awaited, err := g.rollCall(ctx, s, expected)
		if err != nil {
			return nil, err
		}
		if len(awaited) == 0 || !time.Now().Before(patience) {
			return g.decide(ctx, s, here)
		}
		if err := waitAWhile(ctx, s, awaited, slice); err != nil {
			return nil, err
		}
	}
}

// rollCall returns which ranks have come, and the keys of those that may still. Nobody is awaited once it is decided.
func (g *Group) rollCall(ctx context.Context, s store.Store, expected []int) (here []int, awaited []string, err error) {
	decided, err := s.Check(ctx, membersKey)
	for _, global := range expected {
		if err != nil {
			return nil, nil, fmt.Errorf("the store cannot be reached: %w", err)
		}
		var there bool
		there, err = s.Check(ctx, hereKey(global))
		if there {
			here = append(here, global)
		} else if gone, _ := g.form.gone.has(g.find(global)); !gone {
			awaited = append(awaited, hereKey(global))
		}
	}
	if decided {
		awaited = nil
	}
	return here, awaited, err
}

// waitAWhile waits for keys for some time; that it passes is no error.
func waitAWhile(ctx context.Context, s store.Store, keys []string, d time.Duration) error {
	ctx2, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := s.Wait(ctx2, keys...)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for the others: %w", context.Cause(ctx))
	case err == nil || ctx2.Err() != nil || errors.Is(err, store.ErrTimeout):
		return nil
	}
	return fmt.Errorf("the store cannot be reached: %w", err)
}

// decide proposes members and returns those of whose proposal came first.
func (g *Group) decide(ctx context.Context, s store.Store, here []int) ([]int, error) {
	b, err := json.Marshal(here)
	if err != nil {
		return nil, err
	}
	if b, err = s.CompareSet(ctx, membersKey, nil, b); err != nil {
		return nil, fmt.Errorf("the store cannot be reached: %w", err)
	}
	var members []int
	if err := json.Unmarshal(b, &members); err != nil {
		return nil, fmt.Errorf("the members in the store: %w", err)
	}
	if !g.ordered(members) {
		return nil, fmt.Errorf("the members in the store are %v, of a group of ranks %v", members, g.ranks)
	}
	g.mu.Lock()
	g.form.expected = members
	g.mu.Unlock()
	if !slices.Contains(members, g.ranks[g.rank]) {
		return nil, fmt.Errorf("ranks %v of the default group have gone on without this one: %w", members, ErrNotMember)
	}
	return members, nil
}

// ordered reports whether some ranks of the default group are members, each named once and in the order of their ranks here.
func (g *Group) ordered(members []int) bool {
	last := colligo.NoRank
	for _, global := range members {
		r := g.find(global)
		if r <= last {
			return false
		}
		last = r
	}
	return true
}

// openShrunk links the members. One that this group loses meanwhile is not waited for; those it had lost before and that
// came nevertheless are.
func (g *Group) openShrunk(ctx context.Context, o origin, members, before []int) (*Group, error) {
	c := g.config
	c.Timeout, c.Desc = g.Timeout(), g.form.desc
	ctx, cancel := context.WithTimeoutCause(ctx, c.ConnectTimeout, errConnect)
	defer cancel()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	stop := g.form.gone.watch(func(peer int) {
		if slices.Contains(members, g.ranks[peer]) && !slices.Contains(before, peer) {
			lost(&classed{fmt.Errorf("rank %d of group %s was lost meanwhile", peer, g.name), colligo.ErrPeerLost})
		}
	})
	defer stop()
	self := g.ranks[g.rank]
	o.ranks, o.rank, o.tag = members, slices.Index(members, self), g.form.tag
	o.barrier = true
	n, err := open(ctx, g.world, c, o)
	if err != nil {
		return nil, fmt.Errorf("%s: rank %d of %d: %w", o.name, o.rank, len(members), because(ctx, err))
	}
	n.form.keys.note(hereKey(self))
	n.tidy()
	if n.rank == 0 { // the decision stays for late ranks until the group is closed
		n.form.keys.note(membersKey)
	}
	return n, nil
}
