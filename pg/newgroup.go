package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// GroupOptions say in what a new group differs from the one that it is made of. All its members must give the same, but for
// the index of Device. c10d: arguments of new_group.
type GroupOptions struct {
	Timeout        time.Duration // of one operation; 0 is the parent's
	ConnectTimeout time.Duration // for the members to link; 0 is the parent's
	Desc           string        // what the group is for, for people; empty is "undefined". c10d: group_desc
	Tag            string        // by which FindGroup finds it, with its ranks
	// LocalSync makes the group an affair of its members: ranks outside need not call NewGroupWith, and do not wait if they do.
	// Its name is a hash of its ranks. Members must make groups of the same ranks in the same order. Groups that share members
	// must be made in an order that does not go round in circles. While such a group forms, the rank that serves the store has
	// to stay. c10d: use_local_synchronization.
	LocalSync bool
	Backends  string         // as in Config; empty is the parent's
	Device    colligo.Device // as in Config; the CPU is the parent's
}

// config returns the new group's configuration.
func (o *GroupOptions) config(g *Group) (Config, error) {
	c := withTimeout(g)
	for _, d := range []struct {
		name  string
		value time.Duration
		to    *time.Duration
	}{{"Timeout", o.Timeout, &c.Timeout}, {"ConnectTimeout", o.ConnectTimeout, &c.ConnectTimeout}} {
		if d.value < 0 {
			return c, fmt.Errorf("%s is %v", d.name, d.value)
		}
		if d.value > 0 {
			*d.to = d.value
		}
	}
	if o.Timeout > 0 {
		c.onDevices = 0
	}
	if o.Backends != "" {
		c.Backends = o.Backends
	}
	if o.Device.Kind != colligo.CPU {
		c.Device = o.Device
	}
	if c.Desc = o.Desc; c.Desc == "" {
		c.Desc = "undefined"
	}
	_, err := c.backends()
	return c, err
}

// NewGroup makes a group of some ranks of this one. Every rank of this group calls it, members or not, in the same order. It
// returns when the members are linked. A nil list is all ranks. The ranks are sorted, and their order is that of the ranks in the new group.
//
// A rank that is not a member gets a handle whose operations fail with ErrNotMember, and which need not be closed. Ranks
// that this group has not, and lists that differ between ranks, are errors of this call alone.
//
// ConnectTimeout is the limit of the whole call. If a rank does not come within it, this group fails, as it would in any other
// collective, and the error names the rank. If a member gives up, the call fails on all members at once. c10d: new_group.
func (g *Group) NewGroup(ctx context.Context, ranks []int) (*Group, error) {
	return g.NewGroupWith(ctx, ranks, GroupOptions{})
}

// NewGroupWith makes a group of some ranks of this one, with options. Callers, results and errors are as for NewGroup, but
// for LocalSync. c10d: new_group with timeout, backend, group_desc, device_id and use_local_synchronization.
func (g *Group) NewGroupWith(ctx context.Context, ranks []int, o GroupOptions) (*Group, error) {
	if ranks == nil {
		ranks = bootstrap.AllRanks(g.Size())
	}
	l := []bootstrap.List{{Ranks: slices.Sorted(slices.Values(ranks))}}
	groups, err := g.make(ctx, time.Now(), l, &o)
	if err != nil {
		return nil, fmt.Errorf("pg: new group %v: %w", ranks, err)
	}
	return groups[0], nil
}

// make makes a group of each list, with one barrier for all, within ConnectTimeout from when the call began. The ranks of a list are
// in the order that they get.
func (g *Group) make(ctx context.Context, began time.Time, lists []bootstrap.List, o *GroupOptions) ([]*Group, error) {
	if !g.IsMember() {
		return nil, ErrNotMember
	}
	for _, l := range lists {
		err := g.Err()
		if err == nil {
			err = bootstrap.CheckRanks(l.Ranks, g.size)
		}
		if err != nil {
			return nil, err
		}
	}
	c, err := o.config(g)
	if err != nil {
		return nil, err
	}
	if speaksTorch(g) {
		return (*onTorch)(g).make(ctx, c, lists, o)
	}
	linking, cancel := context.WithDeadlineCause(ctx, began.Add(c.ConnectTimeout), errConnect)
	defer cancel()
	named := g.forming.NameAll(lists, o.LocalSync)
	forming, stop := context.WithCancelCause(linking)
	defer stop(nil)
	assembled := func() error { return nil }
	if !o.LocalSync {
		assembled = assembling(linking, g, lists, named, stop)
	}
	groups := make([]*Group, len(lists))
	var failed error
	for i, l := range lists {
		groups[i] = outside(g, l, c, o)
		if rank := slices.Index(l.Ranks, g.rank); rank >= 0 && failed == nil {
			groups[i], failed = g.openMember(forming, c, rank, l, o, opening{})
		}
	}
	if err := assembled(); err != nil {
		failed = err
	} else if !o.LocalSync {
		due, _ := linking.Deadline()
		if err := dismiss(ctx, g, due, lists[0].Name); failed == nil {
			failed = err
		}
	}
	if failed == nil {
		return groups, nil
	}
	for _, n := range groups {
		if n != nil {
			failed = errors.Join(failed, n.Close())
		}
	}
	return nil, failed
}

// assembling assembles the ranks while the groups form, for all of them seldom come at one time. An error ends the forming. The result
// waits for the end.
func assembling(ctx context.Context, g *Group, lists []bootstrap.List, named int, endForming context.CancelCauseFunc) (assembled func() error) {
	result := make(chan error, 1)
	go func() {
		err := assemble(ctx, g, lists, named)
		if err != nil {
			endForming(err)
		}
		result <- err
	}()
	return func() error { return <-result }
}

// assemble returns when all ranks of this group have come to make the same groups of it. A rank that does not come ends this
// group. Differing lists are an error of this call alone, on all ranks.
func assemble(ctx context.Context, g *Group, lists []bootstrap.List, named int) error {
	if g.size == 1 {
		return nil
	}
	text, sum := bootstrap.Describe(lists)
	// The greatest sum, the complement of the least, and the greatest number of groups that have names. An all-reduce of a few bytes takes
	// fewer messages than an all-gather.
	extremes := []int64{sum, ^sum, int64(named)}
	if err := g.AllReduce(&op.Own{Context: ctx}, colligo.Of(extremes), colligo.Max); err != nil {
		return err
	}
	if extremes[0] == ^extremes[1] {
		return nil
	}
	g.forming.CountTo(int(extremes[2]))
	mine, all := []int64{sum, int64(len(text))}, make([]int64, 2*g.size)
	if err := g.AllGatherIntoTensor(&op.Own{Context: ctx}, colligo.Of(all), colligo.Of(mine)); err != nil {
		return err
	}
	longest := int64(0)
	for rank := range g.size {
		longest = max(longest, all[2*rank+1])
	}
	own, texts := make([]uint8, longest), make([]uint8, int(longest)*g.size)
	copy(own, text)
	if err := g.AllGatherIntoTensor(&op.Own{Context: ctx}, colligo.Of(texts), colligo.Of(own)); err != nil {
		return err
	}
	for rank := range g.size {
		if all[2*rank] != sum {
			theirs := texts[rank*int(longest):][:all[2*rank+1]]
			return diagnose.WithClass(fmt.Errorf("rank %d says %s", rank, bootstrap.Differ(theirs, lists)), colligo.ErrMismatch)
		}
	}
	return nil
}

// lastWord is how much longer than the members' limit the ranks wait for them. They may need it to say that their time was up. For the
// rest of Grace a rank may ask where they are.
const lastWord = bootstrap.Grace - control.Patience

// dismiss returns when the members of all groups are linked, or have given up. No rank may leave before, and take the store
// along.
func dismiss(ctx context.Context, g *Group, due time.Time, name string) error {
	ctx, cancel := context.WithDeadlineCause(ctx, due.Add(lastWord), errConnect)
	defer cancel()
	err := g.run(&op.Own{Context: ctx}, g.call().Barrier(colligo.Device{}))
	if err == nil {
		err = g.meetInStore(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// HashedName is the name that c10d gives to a group of these ranks of the default group, in their order. It is the SHA-1 of
// "r0_r1_..._n" in hexadecimal. In c10d n is the number of groups that the process is in, and use_local_synchronization and
// split_group name groups so.
//
// Here groups of LocalSync have it at the end of their name, after the parent's. N counts the groups of the same ranks from
// 1. c10d: _hash_ranks_to_str.
func HashedName(ranks []int, n int) string { return bootstrap.HashedName(ranks, n) }

// outside returns the handle of a rank that is not a member.
func outside(g *Group, l bootstrap.List, c Config, o *GroupOptions) *Group {
	n := &Group{member: member{l.Name, colligo.NoRank, len(l.Ranks), l.Global, host.ID(l.Name)}, log: g.log, config: c, job: g.job,
		host: host.New(host.Config{})}
	n.limits.timeout = c.Timeout
	n.forming.Tag = o.Tag
	n.devices.selected, _ = c.backends() // config has read them before
	return n
}

// openMember makes the group on a rank that belongs to it.
func (g *Group) openMember(ctx context.Context, c Config, rank int, l bootstrap.List, o *GroupOptions, how opening) (*Group, error) {
	how.barrier = o.LocalSync
	if !o.LocalSync {
		how.broken = g.brokenBy
	}
	n, err := open(ctx, g.job, c, bootstrap.Member{Name: l.Name, Rank: rank, Ranks: l.Global, Tag: o.Tag}, how)
	if err != nil {
		return nil, fmt.Errorf("%s: rank %d of %d: %w", l.Name, rank, len(l.Ranks), bootstrap.Because(ctx, err))
	}
	return n, nil
}
