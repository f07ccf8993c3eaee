package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/colligo-go/colligo/pg/flight"
)

// apart is from what difference on clocks are taken to be set differently.
const apart = 200 * int64(time.Millisecond)

// picture is what both drawings show: operations as bars in lanes, one lane for each rank and group.
type picture struct {
	start int64 // ns since 1970 of time 0
	lanes []lane
}

type lane struct {
	rank  int
	group string // label
	rows  int    // bars that overlap lie in different ones
	bars  []bar
}

// bar is one operation; times are ns since the picture's start.
type bar struct {
	entry             *flight.Entry
	row               int
	from, started, to int64 // started is -1 if it is not known
	finding           *Finding
}

// draw lays out the operations of all dumps.
func draw(dumps map[int]*flight.Dump, r *Report) *picture {
	j := newJob(dumps)
	found := map[Entry]*Finding{}
	for i := range slices.Backward(r.Findings) { // the first one wins
		for _, e := range r.Findings[i].Entries {
			found[e] = &r.Findings[i]
		}
	}
	p, skew := &picture{}, j.clocks()
	first, last := j.span(skew)
	p.start = first
	for _, rank := range j.ranks {
		lanes := map[string]*lane{}
		var order []*lane
		for i := range j.dumps[rank].Entries {
			e := &j.dumps[rank].Entries[i]
			name := label(e.Group, e.Desc)
			if lanes[name] == nil {
				lanes[name] = &lane{rank: rank, group: name}
				order = append(order, lanes[name])
			}
			lanes[name].bars = append(lanes[name].bars, barOf(e, first+skew[rank], last-first, found[Entry{rank, e.ID}]))
		}
		for _, l := range order {
			l.arrange()
			p.lanes = append(p.lanes, *l)
		}
	}
	return p
}

// clocks says by how much each rank's clock is ahead, as far as the largest group tells; small differences count as none.
func (j *job) clocks() map[int]int64 {
	skew := map[int]int64{}
	var largest *group
	for _, g := range j.groups {
		if largest == nil || len(g.members) > len(largest.members) {
			largest = g
		}
	}
	if largest == nil {
		return skew
	}
	c := comparison{job: j, group: largest}
	for i, ahead := range c.skew(c.meetings()) {
		if max(ahead, -ahead) >= apart {
			skew[largest.members[i].rank] = ahead
		}
	}
	return skew
}

// span is from the first to the last time in any dump, and a little more. So an operation that has not ended is seen to go
// on.
func (j *job) span(skew map[int]int64) (first, last int64) {
	for _, rank := range j.ranks {
		for i := range j.dumps[rank].Entries {
			e := &j.dumps[rank].Entries[i]
			if begin := e.Created - skew[rank]; first == 0 || begin < first {
				first = begin
			}
			last = max(last, max(e.Created, e.DiscoveredStarted, e.DiscoveredCompleted)-skew[rank])
		}
	}
	return first, last + (last-first)/50 + 1000
}

// barOf draws an operation from its call to its end, or to the end of the picture.
func barOf(e *flight.Entry, zero, end int64, f *Finding) bar {
	b := bar{entry: e, from: e.Created - zero, started: -1, to: end, finding: f}
	if e.DiscoveredStarted > 0 {
		b.started = max(b.from, e.DiscoveredStarted-zero)
	}
	switch {
	case e.State == flight.Completed && e.DiscoveredCompleted > 0:
		b.to = e.DiscoveredCompleted - zero
	case e.State == flight.Completed:
		b.to = b.from + max(0, int64(e.Duration))
	}
	b.to = max(b.from, b.to)
	return b
}

// arrange gives bars rows so that none overlap, as few as that takes.
func (l *lane) arrange() {
	slices.SortStableFunc(l.bars, func(a, b bar) int { return cmp.Compare(a.from, b.from) })
	var ends []int64
	for i := range l.bars {
		b := &l.bars[i]
		b.row = slices.IndexFunc(ends, func(end int64) bool { return end <= b.from })
		if b.row < 0 {
			b.row, ends = len(ends), append(ends, 0)
		}
		ends[b.row] = b.to
	}
	l.rows = len(ends)
}

// title is a bar's name.
func (b *bar) title() string {
	if b.entry.P2P {
		return opName(b.entry.Name)
	}
	return fmt.Sprintf("%s #%d", opName(b.entry.Name), b.entry.Seq)
}

// about returns the text that a bar shows, with all that is known of its operation, in lines.
func (b *bar) about(l *lane) string {
	e := b.entry
	lines := []string{fmt.Sprintf("%s, rank %d, %s", b.title(), l.rank, l.group)}
	if t := tensors(e); t != "" {
		lines = append(lines, t)
	}
	state := e.State.String()
	if e.Retired && e.State != flight.Completed {
		state += ", given up"
	}
	if t := took(e); t >= 0 {
		state += " in " + duration(t)
	}
	lines = append(lines, state+", called at "+time.Unix(0, e.Created).UTC().Format("15:04:05.000000"))
	if at := place(e); at != "" {
		lines = append(lines, at)
	}
	if b.finding != nil {
		lines = append(lines, b.finding.Kind.String()+": "+clip(b.finding.Text, mostText))
	}
	return strings.Join(lines, "\n")
}
