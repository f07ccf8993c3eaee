package trace

import (
	"fmt"
	"slices"
	"time"

	"github.com/colligo-go/colligo/pg/flight"
)

// Bounds from which on a rank is slow. It came last in most of at least this many collectives, and its median delay is at
// least this long. Waiting for it took at least this part of the time. Some rank always comes last, and one long delay makes
// no slow rank.
const (
	slowTurns = 5
	slowBy    = int64(time.Millisecond)
	slowShare = 0.1
)

// meeting is one collective that all members have completed.
type meeting struct {
	entries []*flight.Entry // by member
}

// slow looks for a rank that comes late again and again, and for the collective that took longest.
func (c *comparison) slow() {
	meetings := c.meetings()
	c.summary.Slowest = c.slowest()
	if len(meetings) < slowTurns || len(c.members) < 2 {
		return
	}
	skew := c.skew(meetings)
	late, waited := make([][]int64, len(c.members)), make([]int64, len(c.members))
	for _, m := range meetings {
		arrivals := make([]int64, len(c.members))
		for i, e := range m.entries {
			arrivals[i] = e.Created - skew[i]
		}
		last := slices.Index(arrivals, slices.Max(arrivals))
		by := arrivals[last] - secondLast(arrivals)
		late[last], waited[last] = append(late[last], by), waited[last]+by
	}
	span := meetings[len(meetings)-1].entries[0].DiscoveredCompleted - meetings[0].entries[0].Created
	worst := slices.Index(waited, slices.Max(waited))
	if span <= 0 || 2*len(late[worst]) <= len(meetings) || middle(late[worst]) < slowBy || float64(waited[worst]) < slowShare*float64(span) {
		return
	}
	rank := c.members[worst].rank
	c.findings = append(c.findings, Finding{Kind: Slow, Group: c.name, Ranks: []int{rank}, Waiting: without(c.members, []int{rank}),
		Text: fmt.Sprintf("rank %d is slow in %s: it came last in %d of %d collectives, by %s in the middle, and all others waited %s of %s",
			rank, c.label(), len(late[worst]), len(meetings), duration(middle(late[worst])), duration(waited[worst]), duration(span))})
}

// meetings returns the collectives that all members have completed and whose times are known, where one call has one number.
func (c *comparison) meetings() []meeting {
	var all []meeting
	for _, seq := range c.seqs() {
		m := meeting{}
		for _, member := range c.members {
			entries := member.calls[seq]
			if len(entries) == 1 && entries[0].State == flight.Completed && entries[0].Created > 0 && entries[0].DiscoveredCompleted > 0 {
				m.entries = append(m.entries, entries[0])
			}
		}
		if len(m.entries) == len(c.members) {
			all = append(all, m)
		}
	}
	return all
}

// skew is by how much each member's clock is ahead of the first's. It is the median of the differences between the ends of
// collectives that no rank can leave before all have entered.
func (c *comparison) skew(meetings []meeting) []int64 {
	skew := make([]int64, len(c.members))
	for i := range skew {
		var gaps []int64
		for _, m := range meetings {
			switch family(m.entries[0].Name) {
			case "all_reduce", "all_reduce_barrier", "all_gather", "reduce_scatter", "all_to_all":
				gaps = append(gaps, m.entries[i].DiscoveredCompleted-m.entries[0].DiscoveredCompleted)
			}
		}
		skew[i] = middle(gaps)
	}
	return skew
}

// middle is the median, 0 of nothing.
func middle(all []int64) int64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

func secondLast(arrivals []int64) int64 {
	all := slices.Sorted(slices.Values(arrivals))
	return all[len(all)-2]
}

// took is how long an operation was under way on its rank, -1 if that is not known.
func took(e *flight.Entry) int64 {
	switch {
	case e.State != flight.Completed:
		return -1
	case e.Duration >= 0:
		return int64(e.Duration)
	case e.DiscoveredCompleted == 0:
		return -1
	case e.DiscoveredStarted != 0:
		return e.DiscoveredCompleted - e.DiscoveredStarted
	}
	return e.DiscoveredCompleted - e.Created
}

// slowest says which collective took longest on its fastest rank, which nobody's lateness explains.
func (c *comparison) slowest() string {
	var all []int64
	var worst *flight.Entry
	for _, seq := range c.seqs() {
		e := c.fastest(seq)
		if e == nil {
			continue
		}
		all = append(all, took(e))
		if worst == nil || took(e) > took(worst) {
			worst = e
		}
	}
	if worst == nil {
		return ""
	}
	return fmt.Sprintf("longest %s: %s, middle %s", describe(worst), duration(took(worst)), duration(middle(all)))
}

// fastest is the call of a collective that took least, nil if nobody knows how long it took.
func (c *comparison) fastest(seq uint64) *flight.Entry {
	var least *flight.Entry
	for _, m := range c.members {
		for _, e := range m.calls[seq] {
			if took(e) >= 0 && (least == nil || took(e) < took(least)) {
				least = e
			}
		}
	}
	return least
}
