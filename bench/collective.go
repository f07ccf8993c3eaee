package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/colligo-go/colligo/plan"
)

const barrier = plan.Barrier

// collective is one operation that can be measured.
type collective struct {
	name            string
	coll            plan.Coll // Send for sendrecv
	reduces, rooted bool
	parts           bool // a size is of all ranks' parts together
	bind            func(b *binding) trial
	// bus is busbw divided by algbw in a group of n ranks, as nccl-tests defines it. It is the share of the size that passes
	// each rank's link under every algorithm. So busbw can be compared with the link's speed.
	bus func(n int) float64
}

func collectives() []collective {
	return []collective{
		{name: "all_reduce", coll: plan.AllReduce, reduces: true, bind: bindAllReduce, bus: bothWays},
		{name: "broadcast", coll: plan.Broadcast, rooted: true, bind: bindBroadcast, bus: whole},
		{name: "reduce", coll: plan.Reduce, reduces: true, rooted: true, bind: bindReduce, bus: whole},
		{name: "all_gather", coll: plan.AllGather, parts: true, bind: bindAllGather, bus: allButOne},
		{name: "reduce_scatter", coll: plan.ReduceScatter, reduces: true, parts: true, bind: bindReduceScatter, bus: allButOne},
		{name: "all_to_all", coll: plan.AllToAll, parts: true, bind: bindAllToAll, bus: allButOne},
		{name: "gather", coll: plan.Gather, rooted: true, parts: true, bind: bindGather, bus: allButOne},
		{name: "scatter", coll: plan.Scatter, rooted: true, parts: true, bind: bindScatter, bus: allButOne},
		{name: "sendrecv", coll: plan.Send, bind: bindSendRecv, bus: whole},
		{name: "barrier", coll: barrier, bind: bindBarrier, bus: whole},
	}
}

func whole(int) float64       { return 1 }
func allButOne(n int) float64 { return float64(n-1) / float64(n) }
func bothWays(n int) float64  { return 2 * allButOne(n) }

func collectivesNamed(names []string) ([]collective, error) {
	all := collectives()
	if slices.Contains(names, "all") {
		return all, nil
	}
	var known []string
	for _, c := range all {
		known = append(known, c.name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no collective named; there are %s, and all", strings.Join(known, " "))
	}
	var found []collective
	for _, n := range names {
		i := slices.Index(known, n)
		if i < 0 {
			return nil, fmt.Errorf("unknown collective %q; there are %s, and all", n, strings.Join(known, " "))
		}
		found = append(found, all[i])
	}
	return found, nil
}

// shape returns the elements of one rank's part and the bytes that the table shows, for a size asked for. A size that
// is not 0 has at least one element in each part.
func (c collective) shape(bytes, elem, ranks int) (count, shown int) {
	unit := elem
	if c.parts {
		unit *= ranks
	}
	count = bytes / unit
	if count == 0 && bytes > 0 {
		count = 1
	}
	return count, count * unit
}

// sizes returns the sizes that a collective is measured with; a barrier has none.
func (o *options) sizes(c collective) []int {
	if c.coll == barrier {
		return []int{0}
	}
	return sizes(int(o.begin), int(o.end), o.factor)
}
