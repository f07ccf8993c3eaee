package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo"
)

// NewGroup makes a group of some ranks of this one. Every rank of this group calls it, members or not, in the same order,
// and returns when the members are linked. The ranks are sorted, and their place in that order is their rank in the new group.
// A rank that is not a member gets a handle whose operations fail with ErrNotMember, and which need not be closed. If a
// rank does not call it, this group fails, as it would in any other collective.
// c10d: new_group.
func (g *Group) NewGroup(ctx context.Context, ranks []int) (*Group, error) {
	sorted := slices.Sorted(slices.Values(ranks))
	if err := g.canMake(sorted); err != nil {
		return nil, fmt.Errorf("pg: new group %v: %w", ranks, err)
	}
	g.mu.Lock()
	g.made++
	name := fmt.Sprintf("%s/%d", g.name, g.made)
	g.mu.Unlock()
	rank := slices.Index(sorted, g.rank)
	global := make([]int, len(sorted))
	for i, r := range sorted {
		global[i] = g.ranks[r]
	}
	var n *Group
	var err error
	if rank < 0 {
		n = &Group{name: name, rank: colligo.NoRank, size: len(sorted), ranks: global, world: g.world, log: g.log}
	} else if n, err = g.openMember(ctx, name, rank, global); err != nil {
		err = fmt.Errorf("pg: new group %s: rank %d of %d: %w", name, rank, len(sorted), err)
	}
	// Nobody may leave, and take the store along, before the members are linked, which may take them ConnectTimeout.
	ctx, cancel := context.WithTimeout(ctx, 2*g.config.ConnectTimeout)
	defer cancel()
	if late := g.Barrier(ctx); late != nil && err == nil {
		err = errors.Join(fmt.Errorf("pg: new group %s: %w", name, late), n.Close())
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// openMember makes the group on a rank that belongs to it.
func (g *Group) openMember(ctx context.Context, name string, rank int, ranks []int) (*Group, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.config.ConnectTimeout, errConnect)
	defer cancel()
	g.world.join()
	n, err := open(ctx, g.world, g.config, name, rank, ranks)
	if err != nil {
		return nil, errors.Join(err, g.world.leave())
	}
	return n, nil
}

func (g *Group) canMake(sorted []int) error {
	if err := g.Err(); err != nil {
		return err
	}
	if g.rank == colligo.NoRank {
		return ErrNotMember
	}
	if len(sorted) == 0 {
		return errors.New("no ranks")
	}
	for i, r := range sorted {
		if r < 0 || r >= g.size || i > 0 && r == sorted[i-1] {
			return fmt.Errorf("rank %d of %d is out of range or named twice", r, g.size)
		}
	}
	return nil
}
