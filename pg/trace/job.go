package trace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/colligo-go/colligo/pg/flight"
)

// job is all dumps, sorted by group.
type job struct {
	ranks  []int // with a dump
	dumps  map[int]*flight.Dump
	groups []*group
	limits map[int]int64 // see firstLimit
}

// group is a group of ranks. Groups of one name and different members are different groups.
type group struct {
	name, desc string
	members    []*member // in the order of their ranks in the group
}

// member is what one rank has recorded of a group.
type member struct {
	rank  int
	dump  *flight.Dump // nil where there is none
	calls map[uint64][]*flight.Entry
	last  uint64 // highest number of a collective that was called
	pairs []*flight.Entry
	lost  bool // the ring does not reach back to the first operation
}

func newJob(dumps map[int]*flight.Dump) *job {
	j := &job{dumps: maps.Clone(dumps), limits: map[int]int64{}}
	for rank, d := range dumps {
		j.ranks = append(j.ranks, rank)
		if d.Entries != nil && slices.ContainsFunc(d.Entries, overOnly) { // which settle changes, in a copy
			own := *d
			own.Entries = slices.Clone(d.Entries)
			j.dumps[rank] = &own
		}
	}
	slices.Sort(j.ranks)
	found := map[string]*group{}
	for _, rank := range j.ranks {
		j.addRank(rank, found)
	}
	for _, g := range found {
		g.settle()
		j.groups = append(j.groups, g)
	}
	slices.SortFunc(j.groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name), cmp.Compare(len(b.members), len(a.members)),
			cmp.Compare(a.key(), b.key()))
	})
	return j
}

// addRank files what a rank has recorded.
func (j *job) addRank(rank int, found map[string]*group) {
	d := j.dumps[rank]
	mine := map[string]*member{}
	for _, g := range d.Groups {
		if g.Name == "" { // Gloo does not tell its groups apart there
			continue
		}
		own := &group{name: g.Name, desc: g.Desc}
		for _, r := range g.Ranks {
			own.members = append(own.members, &member{rank: r, dump: j.dumps[r]})
		}
		if old := found[own.key()]; old != nil {
			own = old
		}
		found[own.key()] = own
		if m := own.member(rank); m != nil {
			mine[g.Name] = m
		}
	}
	for i := range d.Entries {
		e := &d.Entries[i]
		m := mine[e.Group]
		if m == nil {
			g := found["?"+e.Group]
			if g == nil {
				g = j.unlisted(e)
				found["?"+e.Group] = g
			}
			if m = g.member(rank); m == nil {
				m = &member{rank: rank, dump: d}
				g.members = append(g.members, m)
			}
			mine[e.Group] = m
		}
		m.add(e)
	}
	unseen := unseen(d)
	for _, m := range mine {
		m.believe(unseen)
	}
}

// unlisted is the group of an operation where no configuration lists it. Its members are the ranks that recorded something,
// but all ranks are in the default group.
func (j *job) unlisted(e *flight.Entry) *group {
	g := &group{name: e.Group, desc: e.Desc}
	if e.Desc == "default_pg" {
		for _, rank := range j.ranks {
			g.members = append(g.members, &member{rank: rank, dump: j.dumps[rank]})
		}
	}
	return g
}

// overOnly reports whether an entry says that an operation is over, but not whether it was done: so PyTorch records Gloo's.
func overOnly(e flight.Entry) bool {
	return e.Retired && e.State == flight.Scheduled && strings.HasPrefix(e.Name, "gloo:")
}

// settle takes collectives that are over for done, unless a rank has yet to call them.
func (g *group) settle() {
	for _, seq := range g.seqs() {
		if slices.ContainsFunc(g.members, func(m *member) bool { return m.lacks(seq) }) {
			continue
		}
		for _, m := range g.members {
			m.settle(seq)
		}
	}
}

func (m *member) settle(seq uint64) {
	for _, e := range m.calls[seq] {
		if overOnly(*e) {
			e.State = flight.Completed
		}
	}
}

// lacks reports whether a member's dump shows that it has not called a collective.
func (m *member) lacks(seq uint64) bool {
	return m.dump != nil && m.dump.Entries != nil && len(m.calls[seq]) == 0 && seq > m.last
}

// believe takes the highest number from the dump's status too, which knows of collectives that the dump leaves out. PyTorch counts
// sends and receives there as well, so it is not believed where there are any. A group none of whose operations are there, whose
// number in the status nobody knows then, may have come as far as unseen.
func (m *member) believe(unseen uint64) {
	if len(m.calls) == 0 && len(m.pairs) == 0 {
		m.last = unseen
	}
	for _, calls := range m.calls {
		if s, ok := m.dump.Status[strconv.Itoa(calls[0].PG)]; ok && s.LastEnqueued > 0 && len(m.pairs) == 0 {
			m.last = max(m.last, uint64(s.LastEnqueued))
		}
		return
	}
}

// unseen is the highest number that a group can have come to without an operation in the dump. It is 0 where the dump leaves
// out none.
func unseen(d *flight.Dump) uint64 {
	n, highest := len(d.Entries), int64(0)
	if n > 0 && d.Entries[n-1].ID == int64(n-1) {
		return 0
	}
	seen := map[string]bool{}
	for i := range d.Entries {
		seen[strconv.Itoa(d.Entries[i].PG)] = true
	}
	for number, s := range d.Status {
		if !seen[number] {
			highest = max(highest, s.LastEnqueued)
		}
	}
	return uint64(highest)
}

// add files an operation.
func (m *member) add(e *flight.Entry) {
	switch {
	case e.P2P:
		m.pairs = append(m.pairs, e)
	case e.Seq > 0:
		if m.calls == nil {
			m.calls = map[uint64][]*flight.Entry{}
		}
		m.calls[e.Seq] = append(m.calls[e.Seq], e)
		m.last = max(m.last, e.Seq)
	}
	m.lost = m.dump.Entries[0].ID > 0
}

// key tells groups apart.
func (g *group) key() string { return g.name + " " + fmt.Sprint(g.memberRanks()) }

func (g *group) memberRanks() []int {
	ranks := make([]int, len(g.members))
	for i, m := range g.members {
		ranks[i] = m.rank
	}
	return ranks
}

func (g *group) member(rank int) *member {
	for _, m := range g.members {
		if m.rank == rank {
			return m
		}
	}
	return nil
}

// label names the group.
func (g *group) label() string { return label(g.name, g.desc) }

// seqs returns the numbers of all collectives that any member has recorded.
func (g *group) seqs() []uint64 {
	seen := map[uint64]bool{}
	var all []uint64
	for _, m := range g.members {
		for seq := range m.calls {
			if !seen[seq] {
				all = append(all, seq)
			}
			seen[seq] = true
		}
	}
	slices.Sort(all)
	return all
}

// waits returns the first collective or message that a rank has called and that has not ended, nil if it waits in none.
func (j *job) waits(rank int) *flight.Entry {
	d := j.dumps[rank]
	if d == nil {
		return nil
	}
	for i := range d.Entries {
		if d.Entries[i].State != flight.Completed {
			return &d.Entries[i]
		}
	}
	return nil
}

// hasGivenUp reports whether a rank has given up an operation. If its group has failed, it gives up all that is pending there. The dump may
// have been written shortly before that.
func (j *job) hasGivenUp(rank int, e *flight.Entry) bool {
	_, failed := j.dumps[rank].Failures[e.Group]
	return e.State != flight.Completed && (e.Retired || failed)
}

// whereabouts says what a rank does while others wait for it.
func (j *job) whereabouts(rank int) string {
	d := j.dumps[rank]
	e := j.waits(rank)
	s := fmt.Sprintf("rank %d waits in", rank)
	switch {
	case d == nil || len(d.Entries) == 0:
		return fmt.Sprintf("rank %d has recorded nothing", rank)
	case e == nil:
		e = &d.Entries[len(d.Entries)-1]
		s = fmt.Sprintf("rank %d is done with its last,", rank)
	case j.hasGivenUp(rank, e):
		s = fmt.Sprintf("rank %d gave up in", rank)
	}
	s += fmt.Sprintf(" %s of %s", describe(e), label(e.Group, e.Desc))
	if at := place(e); at != "" {
		s += ", called at " + at
	}
	return s
}

// place is the program's own line that called an operation: the first frame outside the libraries. "" if it is not known.
func place(e *flight.Entry) string {
	for _, f := range e.Frames {
		file := f.File[max(0, len(f.File)-mostPath):]
		if strings.HasPrefix(f.Name, "github.com/colligo-go/colligo/") || strings.Contains(file, "-packages/torch/") {
			continue
		}
		return fmt.Sprintf("%s:%d (%s)", clipName(file[strings.LastIndexAny(file, `/\`)+1:]), f.Line, clipName(f.Name))
	}
	return ""
}

// notes says what limits the comparison.
func (j *job) notes() []string {
	var all []string
	var lost, without []int
	versions := map[string][]int{}
	for _, rank := range j.ranks {
		d := j.dumps[rank]
		versions[d.Version] = append(versions[d.Version], rank)
		switch {
		case d.Entries == nil:
			without = append(without, rank)
		case len(d.Entries) > 0 && d.Entries[0].ID > 0:
			lost = append(lost, rank)
		}
	}
	if len(lost) > 0 {
		all = append(all, fmt.Sprintf("the first operations of %s are not in the dumps", ranksText(lost)))
	}
	if len(without) > 0 {
		all = append(all, fmt.Sprintf("the dump of %s has no operations", ranksText(without)))
	}
	if len(versions) > 1 {
		var parts []string
		for v, ranks := range versions {
			parts = append(parts, fmt.Sprintf("%s of %s", clipName(v), ranksText(ranks)))
		}
		slices.Sort(parts)
		all = append(all, "dumps of different versions: "+strings.Join(parts, ", "))
	}
	return all
}
