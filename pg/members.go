package pg

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

// GlobalRank returns the rank in the default group of a rank of this group. c10d: get_global_rank.
func (g *Group) GlobalRank(rank int) (int, error) {
	if g == nil || rank < 0 || rank >= len(g.ranks) {
		g = g.orOutside()
		return colligo.NoRank, fmt.Errorf("pg: rank %d of group %s, which has %d ranks", rank, g.name, len(g.ranks))
	}
	return g.ranks[rank], nil
}

// GroupRank returns the rank in this group of a rank of the default group. c10d: get_group_rank.
func (g *Group) GroupRank(global int) (int, error) {
	if r := g.orOutside().find(global); r != colligo.NoRank {
		return r, nil
	}
	return colligo.NoRank, fmt.Errorf("pg: rank %d of the default group is not in group %s", global, g.Name())
}

// Contains reports whether a rank of the default group is a member.
func (g *Group) Contains(global int) bool { return g.orOutside().find(global) != colligo.NoRank }

// IsMember reports whether this rank is. c10d: GroupMember.NON_GROUP_MEMBER.
func (g *Group) IsMember() bool { return g != nil && g.rank != colligo.NoRank }

// Desc returns what the group is for, as it was given; "default_pg" and "undefined" where nothing was. c10d: group_desc.
func (g *Group) Desc() string {
	if g == nil {
		return ""
	}
	return g.config.Desc
}

// Tag returns the tag that the group was made with. c10d: _get_group_tag.
func (g *Group) Tag() string {
	if g == nil {
		return ""
	}
	return g.forming.Tag
}

// UID returns the number by which frames name the group: a hash of its name, the same on all ranks. c10d has a count of each
// process's own groups. c10d: _get_process_group_uid.
func (g *Group) UID() uint32 {
	if g == nil {
		return 0
	}
	return g.id
}

// Epoch returns how often the group, and those it was shrunk from, have been shrunk.
func (g *Group) Epoch() int {
	if g == nil {
		return 0
	}
	return g.forming.Epochs()
}

// Backend returns the name of what carries out the group's operations on a kind of device; empty means that nothing does.
// c10d: get_backend.
func (g *Group) Backend(kind colligo.DeviceKind) string {
	if g == nil {
		return ""
	}
	return g.devices.selected.Of(kind)
}

// BackendConfig returns the backends of all kinds of device, such as "cpu:host,cuda:peer". c10d: get_backend_config.
func (g *Group) BackendConfig() string {
	if g == nil {
		return ""
	}
	return g.devices.selected.String()
}

// Device returns the device that the group is bound to, the CPU if to none. c10d: bound_device_id.
func (g *Group) Device() colligo.Device {
	if g == nil {
		return colligo.Device{}
	}
	return g.config.Device
}

// Info describes a group. c10d: _get_pg_config.
type Info struct {
	Name, Desc, Tag string
	UID             uint32
	Backends        string // as BackendConfig
	Transport       string // as Group.Transport
	Device          colligo.Device
	Rank, Size      int
	Ranks           []int // of the default group
	Epoch           int
}

// Info describes the group.
func (g *Group) Info() Info {
	return Info{Name: g.Name(), Desc: g.Desc(), Tag: g.Tag(), UID: g.UID(), Backends: g.BackendConfig(), Transport: g.Transport(),
		Device: g.Device(), Rank: g.Rank(), Size: g.Size(), Ranks: g.Ranks(), Epoch: g.Epoch()}
}

// String prints it on one line.
func (i Info) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "group %s (%s): rank %d of %d, ranks %v, %s over %s", i.Name, i.Desc, i.Rank, i.Size, i.Ranks, i.Backends, i.Transport)
	if i.Tag != "" {
		fmt.Fprintf(&b, ", tag %s", i.Tag)
	}
	if i.Device.Kind != colligo.CPU {
		fmt.Fprintf(&b, ", bound to %v", i.Device)
	}
	return b.String()
}

// Groups returns the open groups that this rank is a member of and that come from the same Init as g, in the order of their
// making. c10d: _get_all_pg_configs, get_pg_count.
func (g *Group) Groups() []*Group {
	if g == nil || g.job == nil {
		return nil
	}
	return g.job.open.list()
}

// FindGroup returns the open group among Groups that was made with a tag and has just these ranks of the default group, in
// any order; nil if there is none. c10d: _find_pg_by_ranks_and_tag.
func (g *Group) FindGroup(tag string, ranks []int) *Group {
	want := slices.Sorted(slices.Values(ranks))
	for _, n := range g.Groups() {
		if n.forming.Tag == tag && slices.Equal(want, slices.Sorted(slices.Values(n.ranks))) {
			return n
		}
	}
	return nil
}

// orOutside stands for a nil group, as a rank that a split leaves out may hold one: a handle outside.
func (g *Group) orOutside() *Group {
	if g == nil {
		return &Group{member: member{name: "none", rank: colligo.NoRank}, log: slog.New(slog.DiscardHandler), job: &sharedJob{},
			host: host.New(host.Config{})}
	}
	return g
}

// Algorithm returns the name of the planner that a collective of so many bytes would use, nothing for send and recv. An
// all_to_all is chosen as one of 0 bytes: its ranks may have different splits.
func (g *Group) Algorithm(c plan.Coll, bytes int) string {
	g = g.orOutside()
	return tuning.Pick(g.config.Tuning, c, g.Transport(), g.size, bytes).Algo
}

// Tuning returns the rules by which the group picks planners.
func (g *Group) Tuning() []tuning.Rule {
	return append([]tuning.Rule(nil), g.orOutside().config.Tuning...)
}
