package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// NewSubgroups cuts this group into groups of equal size, each of ranks that follow one another. It returns the group with
// this rank, and all. Every rank calls it with the same size, and one barrier ends it. Errors are as for NewGroup; a size
// that does not divide the group is refused. c10d: new_subgroups.
func (g *Group) NewSubgroups(ctx context.Context, size int, o GroupOptions) (mine *Group, all []*Group, err error) {
	if !g.IsMember() {
		return nil, nil, fmt.Errorf("pg: subgroups of %d ranks: %w", size, ErrNotMember)
	}
	if size < 1 || size > g.size || g.size%size != 0 {
		return nil, nil, fmt.Errorf("pg: subgroups of %d ranks: a group of %d cannot be cut into them", size, g.size)
	}
	var lists [][]int
	for first := 0; first < g.size; first += size {
		l := make([]int, size)
		for i := range l {
			l[i] = first + i
		}
		lists = append(lists, l)
	}
	return g.NewSubgroupsByEnumeration(ctx, lists, o)
}

// NewSubgroupsByEnumeration makes a group of each list of this group's ranks. A rank may be in one list or in none. It
// returns the group with this rank, nil if there is none, and all. Every rank calls it with the same lists, and one barrier
// ends it. Errors are as for NewGroup. c10d: new_subgroups_by_enumeration.
func (g *Group) NewSubgroupsByEnumeration(ctx context.Context, ranks [][]int, o GroupOptions) (mine *Group, all []*Group, err error) {
	lists, err := bootstrap.Disjoint(ranks)
	if err == nil {
		all, err = g.make(ctx, time.Now(), lists, &o)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("pg: subgroups %v: %w", ranks, err)
	}
	for _, n := range all {
		if n.rank != colligo.NoRank {
			mine = n
		}
	}
	return mine, all, nil
}

// SplitGroup cuts this group into lists of its ranks and returns the group with this rank. In each group the ranks keep
// their order. A rank in no list gets a handle outside, of a group without ranks.
//
// Every rank calls it with the same lists, and one barrier ends it. Without a Desc the groups get this group's, with
// ":split:" and the number of the call. Errors are as for NewGroup. c10d: split_group.
func (g *Group) SplitGroup(ctx context.Context, splits [][]int, o GroupOptions) (*Group, error) {
	lists, err := bootstrap.Disjoint(splits)
	var n *Group
	if err == nil {
		n, err = g.split(ctx, time.Now(), lists, o)
	}
	if err != nil {
		return nil, fmt.Errorf("pg: split %v: %w", splits, err)
	}
	return n, nil
}

// NoColor is the colour of a rank that will be in no group of a split. MPI: MPI_UNDEFINED.
const NoColor = -1

// SplitByColor makes a group of all ranks of one colour, in the order of their keys. Ranks of equal keys keep their order.
// Each rank says only where it belongs itself, as opposed to SplitGroup. A colour is at least 0, or NoColor, which gives a
// handle outside.
//
// Every rank calls it; an all-gather of the colours begins it and one barrier ends it. Errors are as for NewGroup. MPI:
// MPI_Comm_split.
func (g *Group) SplitByColor(ctx context.Context, color, key int, o GroupOptions) (*Group, error) {
	if !g.IsMember() {
		return nil, fmt.Errorf("pg: split by color: %w", ErrNotMember)
	}
	if speaksTorch(g) {
		return nil, fmt.Errorf("pg: split by color: %w: ranks of PyTorch would miss its all-gather", errors.ErrUnsupported)
	}
	if color < NoColor {
		return nil, fmt.Errorf("pg: split by color: color %d", color)
	}
	began := time.Now()
	limited, cancel := context.WithDeadlineCause(ctx, began.Add(cmp.Or(o.ConnectTimeout, g.config.ConnectTimeout)), errConnect)
	defer cancel()
	all := make([]int64, 2*g.size)
	mine := []int64{int64(color), int64(key)}
	if err := g.AllGatherIntoTensor(&op.Own{Context: limited}, colligo.Of(all), colligo.Of(mine)); err != nil {
		return nil, fmt.Errorf("pg: split by color: %w", err)
	}
	lists := bootstrap.ByColor(all, NoColor)
	if len(lists) == 0 {
		return outside(g, bootstrap.List{Name: g.name + "/none"}, g.config, &o), nil
	}
	n, err := g.split(ctx, began, lists, o)
	if err != nil {
		return nil, fmt.Errorf("pg: split by color %d, key %d: %w", color, key, err)
	}
	return n, nil
}

// split makes the groups of a split, in a call that has begun at a time, and returns this rank's.
func (g *Group) split(ctx context.Context, began time.Time, lists []bootstrap.List, o GroupOptions) (*Group, error) {
	if !g.IsMember() {
		return nil, ErrNotMember
	}
	if n := g.forming.CountSplit(); o.Desc == "" {
		o.Desc = fmt.Sprintf("%s:split:%d", g.config.Desc, n)
	}
	if speaksTorch(g) && !overGloo(g.devices.selected) {
		return (*onTorch)(g).split(ctx, lists, &o)
	}
	all, err := g.make(ctx, began, lists, &o)
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		if n.rank != colligo.NoRank {
			return n, nil
		}
	}
	c := all[0].config
	return outside(g, bootstrap.List{Name: g.name + "/none"}, c, &o), nil
}
