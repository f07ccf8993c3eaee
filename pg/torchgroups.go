package pg

import (
	"context"
	"errors"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/torch"
)

// errOnlyDefault is why a group other than the default one has no groups of its own.
var errOnlyDefault = errors.New("ranks of PyTorch make all groups of the default group")

// make makes groups as PyTorch's new_group does. There is no barrier over the links.
func (p *onTorch) make(ctx context.Context, c Config, lists []bootstrap.List, o *GroupOptions) ([]*Group, error) {
	g := (*Group)(p)
	if !g.forming.Default {
		return nil, errOnlyDefault
	}
	splits := p.splits(&c)
	if splits && o.LocalSync {
		return nil, errLocalSplit
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
		var how opening
		if splits {
			how.split = p.colored(torch.GroupColor(l.Ranks), rank)
		}
		var err error
		if rank >= 0 {
			groups[i], err = g.openMember(ctx, c, rank, l, o, how)
		} else if splits {
			_, err = p.colored(backend.NoColor, g.rank)(ctx, nil)
		}
		if err == nil && !o.LocalSync {
			limit, cancel := context.WithTimeoutCause(ctx, c.ConnectTimeout, errConnect)
			err = (*onTorch)(groups[i]).formed(limit, number+i+1, rank >= 0)
			cancel()
		}
		if err != nil {
			return nil, errors.Join(err, closeAll(groups))
		}
	}
	return groups, nil
}

// errLocalSplit is why a group that is bound to a device is an affair of all ranks.
var errLocalSplit = errors.New("all ranks of the default group split its communicator, for it is bound to a device: LocalSync cannot be")

// splits reports whether a group's backend is made out of this group's: both are bound to a device.
func (p *onTorch) splits(c *Config) bool {
	return p.config.Device.Kind != colligo.CPU && c.Device == p.config.Device && p.devices.selected.Of(c.Device.Kind) == backend.NCCL
}

// colored returns the splitter of ranks with one color.
func (p *onTorch) colored(color, key int) splitter {
	return func(ctx context.Context, h backend.Host) (backend.Backend, error) {
		return (*onDevice)(p).split(ctx, h, color, key)
	}
}

// errUnbound is why a group cannot be split.
var errUnbound = errors.New("the group is bound to no device, so it is not safe to split it: see Config.Device")

// split cuts the group as PyTorch's split_group does, and returns this rank's part.
func (p *onTorch) split(ctx context.Context, lists []bootstrap.List, o *GroupOptions) (*Group, error) {
	g := (*Group)(p)
	c, err := o.config(g)
	if err == nil && !p.splits(&c) {
		err = errUnbound
	}
	for _, l := range lists {
		if err == nil {
			err = bootstrap.CheckRanks(l.Ranks, g.size)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, l := range lists {
		rank := slices.Index(l.Ranks, g.rank)
		if rank < 0 {
			continue
		}
		one := []bootstrap.List{l}
		g.forming.NameByTorch(one, true, 0, len(g.job.open.list()))
		for i, r := range l.Ranks {
			one[0].Global[i] = g.ranks[r]
		}
		return g.openMember(ctx, c, rank, one[0], o, opening{split: p.colored(torch.SplitColor(c.version(), l.Ranks), rank)})
	}
	if _, err := p.colored(backend.NoColor, g.rank)(ctx, nil); err != nil {
		return nil, err
	}
	return outside(g, bootstrap.List{Name: g.name + "/none"}, c, o), nil
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
