package pg

import (
	"context"
	"errors"
	"slices"

	"github.com/colligo-go/colligo/pg/internal/bootstrap"
)

// errOnlyDefault is why a group other than the default one has no groups of its own.
var errOnlyDefault = errors.New("ranks of PyTorch make all groups of the default group")

// make makes groups as PyTorch's new_group does. There is no barrier over the links.
func (p *onGloo) make(ctx context.Context, c Config, lists []bootstrap.List, o *GroupOptions) ([]*Group, error) {
	g := (*Group)(p)
	if !g.forming.Default {
		return nil, errOnlyDefault
	}
	number := 0
	if !o.LocalSync {
		number = g.job.names.take(len(lists))
	}
	g.forming.NameByTorch(lists, o.LocalSync, number, len(g.job.open.list()))
	groups := make([]*Group, len(lists))
	for i, l := range lists {
		rank := slices.Index(l.Ranks, g.rank)
		groups[i] = outside(g, l, c, o)
		var err error
		if rank >= 0 {
			groups[i], err = g.openMember(ctx, c, rank, l, o)
		}
		if err == nil && !o.LocalSync {
			limit, cancel := context.WithTimeoutCause(ctx, c.ConnectTimeout, errConnect)
			err = (*onGloo)(groups[i]).formed(limit, number+i+1, rank >= 0)
			cancel()
		}
		if err != nil {
			return nil, errors.Join(err, closeAll(groups))
		}
	}
	return groups, nil
}

func closeAll(groups []*Group) error {
	var err error
	for _, n := range groups {
		if n != nil {
			err = errors.Join(err, n.Close())
		}
	}
	return err
}
