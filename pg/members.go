package pg

import (
	"fmt"
	"slices"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

// GlobalRank returns the rank in the default group of a rank of this group. A rank that the group does not have is an error.
// c10d: get_global_rank.
func (g *Group) GlobalRank(rank int) (int, error) {
	if g == nil || rank < 0 || rank >= len(g.ranks) {
		g = g.orOutside()
		return colligo.NoRank, fmt.Errorf("pg: rank %d of group %s, which has %d ranks", rank, g.name, len(g.ranks))
	}
	return g.ranks[rank], nil
}

// GroupRank returns the rank in this group of a rank of the default group. A rank that is no member is an error. c10d:
// get_group_rank.
func (g *Group) GroupRank(global int) (int, error) {
	if r := g.orOutside().find(global); r != colligo.NoRank {
		return r, nil
	}
	return colligo.NoRank, fmt.Errorf("pg: rank %d of the default group is not in group %s", global, g.Name())
}

// Contains reports whether a rank of the default group is a member of this one. No twin: c10d has get_process_group_ranks.
func (g *Group) Contains(global int) bool { return g.orOutside().find(global) != colligo.NoRank }

// IsMember reports whether this rank is a member. It is not on a nil group, nor on the handle that NewGroup gives to ranks
// outside. c10d: GroupMember.NON_GROUP_MEMBER.
func (g *Group) IsMember() bool { return g != nil && g.rank != colligo.NoRank }

// Desc returns what the group is for, as GroupOptions or Config gave it. Without a word from them it is "default_pg" for the
// default group and "undefined" for others. c10d: group_desc.
func (g *Group) Desc() string {
	if g == nil {
		return ""
	}
	return g.config.Desc
}

// Tag returns the tag of GroupOptions, by which FindGroup finds the group; empty if it had none. c10d: _get_group_tag.
func (g *Group) Tag() string {
	if g == nil {
		return ""
	}
	return g.forming.Tag
}

// UID returns the number by which frames name the group. It is a hash of the name, and so the same on all ranks. c10d:
// _get_process_group_uid, which counts the groups of each process.
func (g *Group) UID() uint32 {
	if g == nil {
		return 0
	}
	return g.id
}

// Epoch returns how often the group, and the groups that it was shrunk from, have been shrunk. A try that failed counts,
// too. No twin in c10d; MPI's ULFM makes a new communicator.
func (g *Group) Epoch() int {
	if g == nil {
		return 0
	}
	return g.forming.Epochs()
}

// Backend returns the name of the backend for the group's operations on a kind of device, "host" for the CPU. It is empty
// where none is linked. c10d: get_backend.
func (g *Group) Backend(kind colligo.DeviceKind) string {
	if g == nil {
		return ""
	}
	return g.devices.selected.Of(kind)
}

// BackendConfig returns the backends of all kinds of device, such as "cpu:host,cuda:peer". Config.Backends has the same
// form. c10d: get_backend_config.
func (g *Group) BackendConfig() string {
	if g == nil {
		return ""
	}
	return g.devices.selected.String()
}

// Device returns the device that the group is bound to by Config or GroupOptions, the CPU if to none. c10d: bound_device_id.
func (g *Group) Device() colligo.Device {
	if g == nil {
		return colligo.Device{}
	}
	return g.config.Device
}

// DebugLevelOf returns the debug level of a group, by its configuration and the environment. c10d: get_debug_level.
func DebugLevelOf(g *Group) DebugLevel {
	if !g.IsMember() {
		return DebugOff
	}
	return g.config.Debug.Level
}

// Info describes a group and this rank's place in it. c10d: _get_pg_config.
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

// Info describes the group. It waits for nothing and works on every handle. c10d: _get_pg_config.
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

// Groups returns the open groups of the Init that g comes from, in the order of their making. Groups without this rank are
// left out. c10d: _get_all_pg_configs, get_pg_count.
func (g *Group) Groups() []*Group {
	if g == nil || g.job == nil {
		return nil
	}
	return g.job.open.list()
}

// FindGroup returns the open group that was made with a tag and has just these ranks of the default group, in any order. It
// looks among Groups, and returns nil if there is none. c10d: _find_pg_by_ranks_and_tag.
func (g *Group) FindGroup(tag string, ranks []int) *Group {
	want := slices.Sorted(slices.Values(ranks))
	for _, n := range g.Groups() {
		if n.forming.Tag == tag && slices.Equal(want, slices.Sorted(slices.Values(n.ranks))) {
			return n
		}
	}
	return nil
}

// Algorithm returns the name of the planner that a collective of so many bytes would use on the CPU. For a send or receive
// it is empty. An all_to_all is chosen as one of 0 bytes: its ranks may have different splits. NCCL:
// NCCL_DEBUG_SUBSYS=TUNING logs it.
func (g *Group) Algorithm(c plan.Coll, bytes int) string {
	g = g.orOutside()
	return tuning.Pick(g.config.Tuning, c, runsAt(g, g.Transport()), bytes).Algo
}

// runsAt is where a group's collectives over a medium run.
func runsAt(g *Group, medium string) tuning.Place {
	return tuning.Place{Medium: medium, Size: g.size, Crowded: g.forming.Crowded(), Spare: g.forming.Spare()}
}

// Tuning returns a copy of the rules by which the group picks planners on the CPU; the first that fits counts. NCCL: the
// tables of its tuner plugin.
func (g *Group) Tuning() []tuning.Rule {
	return append([]tuning.Rule(nil), g.orOutside().config.Tuning...)
}
