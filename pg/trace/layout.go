package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/colligo-go/colligo/pg/flight"
)

// apart is from what difference on clocks are taken to be set differently.
const apart = 200 * int64(time.Millisecond)

// picture is what both drawings show: operations as bars in lanes, one lane for each rank and group. Ranks that left no dump
// have empty lanes.
type picture struct {
	start  int64 // ns since 1970 of time 0
	lanes  []lane
	breaks []pause
	hidden int // ranks without a dump that have no lane, for they are too many
}

type lane struct {
	rank   int
	group  string // label
	noDump bool
	rows   int // bars that overlap lie in different ones
	bars   []bar
	slots  []slot
}

// bar is one operation; times are ns since the picture's start.
type bar struct {
	entry             *flight.Entry
	row               int
	from, started, to int64 // started is -1 if it is not known
	givenUp           bool  // the rank gave the operation up
	known             bool  // to is when it ended, or until when the dump tells of it
	finding           *Finding
}

// open reports whether the operation has not ended.
func (b *bar) open() bool { return b.entry.State != flight.Completed }

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
			b := barOf(e, first+skew[rank], j.ends(rank, e, skew[rank], last)-first, found[Entry{rank, e.ID}])
			b.givenUp = j.hasGivenUp(rank, e)
			b.known = !b.open() || b.givenUp || j.dumps[rank].Taken > 0
			lanes[name].bars = append(lanes[name].bars, b)
		}
		for _, l := range order {
			l.arrange()
			p.lanes = append(p.lanes, *l)
		}
	}
	p.addSlots(j, r, skew)
	p.breaks = p.pauses()
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

// span is from the first to the last time in any dump. Operations that have not ended go on until their ranks gave up or
// their dumps were taken. Where no dump tells either, they end a little after all else.
func (j *job) span(skew map[int]int64) (first, last int64) {
	known := int64(0)
	for _, rank := range j.ranks {
		for i := range j.dumps[rank].Entries {
			e := &j.dumps[rank].Entries[i]
			if begin := e.Created - skew[rank]; first == 0 || begin < first {
				first = begin
			}
			last = max(last, max(e.Created, e.DiscoveredStarted, e.DiscoveredCompleted)-skew[rank])
			if e.State != flight.Completed {
				known = max(known, j.gaveUp(rank, e)-skew[rank])
			}
		}
	}
	if known > last {
		return first, known
	}
	return first, last + (last-first)/50 + 1000
}

// gaveUp is when a rank ceased to wait in an operation that has not ended, by its own clock. It is when its group failed, else
// when the dump was taken. PyTorch's dumps tell neither. They are taken when an operation's limit is over, so the earliest end of
// a limit stands for both there. 0 is unknown.
func (j *job) gaveUp(rank int, e *flight.Entry) int64 {
	d := j.dumps[rank]
	limit := int64(0)
	if e.Timeout > 0 && e.Created > 0 && e.Created < math.MaxInt64-int64(e.Timeout) {
		limit = e.Created + int64(e.Timeout)
	}
	switch at := d.Failures[e.Group].Time; {
	case at > e.Created:
		return at
	case d.Taken > 0 && e.Retired && limit > 0:
		return max(e.Created, min(d.Taken, limit))
	case d.Taken > 0:
		return max(e.Created, d.Taken)
	}
	return j.firstLimit(rank)
}

// firstLimit is when the first limit of a rank's operations that have not ended is over, 0 if they have none.
func (j *job) firstLimit(rank int) int64 {
	if at, ok := j.limits[rank]; ok {
		return at
	}
	first := int64(0)
	for i := range j.dumps[rank].Entries {
		e := &j.dumps[rank].Entries[i]
		if e.State == flight.Completed || e.Timeout <= 0 || e.Created <= 0 || e.Created > math.MaxInt64-int64(e.Timeout) {
			continue
		}
		if at := e.Created + int64(e.Timeout); first == 0 || at < first {
			first = at
		}
	}
	j.limits[rank] = first
	return first
}

// ends is where the bar of an operation that has not ended does, if all clocks are set alike.
func (j *job) ends(rank int, e *flight.Entry, skew, last int64) int64 {
	if at := j.gaveUp(rank, e) - skew; at > e.Created-skew && e.State != flight.Completed {
		return at
	}
	return last
}

// barOf draws an operation from its call to its end, or to where the rank gave up.
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
	switch {
	case !b.open():
	case b.givenUp:
		state += ", given up after " + duration(b.to-b.from)
	case b.known:
		state += ", for " + duration(b.to-b.from) + " when the dump was taken"
	case e.Timeout > 0:
		state += ", with a limit of " + e.Timeout.String()
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
