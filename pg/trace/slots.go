package trace

import (
	"cmp"
	"fmt"
	"slices"
)

// mostEmpty bounds the lanes that are drawn only for what is missing. A dump may name any number of ranks.
const mostEmpty = 512

// slot is the place of an operation that a rank has not called while others waited, or that ended with its process. Times are
// ns since the picture's start.
type slot struct {
	row      int
	from, to int64
	text     string
	died     bool // at to, the rank's process
	finding  *Finding
}

// laneKey tells lanes apart.
type laneKey struct {
	rank  int
	group string
}

// slotter adds slots to a picture, and lanes where ranks have none.
type slotter struct {
	*job
	p     *picture
	lanes map[laneKey]int
	empty int // lanes added
}

// addSlots marks where ranks are absent: the operations that they have not entered, and that they left no dump.
func (p *picture) addSlots(j *job, r *Report, skew map[int]int64) {
	s := slotter{job: j, p: p, lanes: map[laneKey]int{}}
	for i := range p.lanes {
		s.lanes[laneKey{p.lanes[i].rank, p.lanes[i].group}] = i
	}
	groups := map[string][]*group{}
	for _, g := range j.groups {
		groups[g.name] = append(groups[g.name], g)
	}
	waits, hidden := p.waits(), map[int]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		at, ok := waits[f]
		if f.diedAt > 0 {
			at.to, ok = f.diedAt-skew[f.diedBy]-p.start, true
			at.from = min(at.from, at.to)
		}
		if ok {
			s.mark(f, groups[f.Group], at)
		}
	}
	for _, g := range j.groups {
		for _, m := range g.members {
			if m.dump == nil && s.lane(g, m) == nil {
				hidden[m.rank] = true
			}
		}
	}
	p.hidden = len(hidden)
	slices.SortStableFunc(p.lanes, func(a, b lane) int { return cmp.Compare(a.rank, b.rank) })
}

// mark adds the slots of a finding.
func (s *slotter) mark(f *Finding, groups []*group, at pause) {
	absent := map[int]bool{}
	for _, rank := range f.absent {
		absent[rank] = true
	}
	for _, g := range groups {
		for _, m := range g.members {
			if !absent[m.rank] {
				continue
			}
			if l := s.lane(g, m); l != nil {
				l.put(slot{from: at.from, to: at.to, text: f.slotText(), died: f.diedAt > 0, finding: f})
			}
		}
	}
}

// lane returns the lane of a member, nil if too many have none.
func (s *slotter) lane(g *group, m *member) *lane {
	key := laneKey{m.rank, g.label()}
	i, ok := s.lanes[key]
	if !ok {
		if s.empty++; s.empty > mostEmpty {
			return nil
		}
		i = len(s.p.lanes)
		s.lanes[key] = i
		s.p.lanes = append(s.p.lanes, lane{rank: m.rank, group: key.group, noDump: m.dump == nil, rows: 1})
	}
	return &s.p.lanes[i]
}

// waits says of each finding from when until when ranks waited in its first operation.
func (p *picture) waits() map[*Finding]pause {
	all := map[*Finding]pause{}
	for i := range p.lanes {
		for j := range p.lanes[i].bars {
			b := &p.lanes[i].bars[j]
			f := b.finding
			if f == nil || !b.open() || f.Op != "message" && f.Seq != b.entry.Seq {
				continue
			}
			old, ok := all[f]
			all[f] = pause{from: min(old.from, b.from), to: max(old.to, b.to)}
			if !ok {
				all[f] = pause{from: b.from, to: b.to}
			}
		}
	}
	return all
}

// slotText says what is missing in a slot.
func (f *Finding) slotText() string {
	switch {
	case f.diedAt > 0:
		return "died at " + clock(f.diedAt)
	case f.Kind == NoDump && f.Op == "message":
		return "no dump"
	case f.Kind == NoDump:
		return fmt.Sprintf("%s #%d: no dump", f.Op, f.Seq)
	case f.Op == "message" && f.lacks != "":
		return "no " + f.lacks
	}
	return fmt.Sprintf("%s #%d: not entered", f.Op, f.Seq)
}

// put gives a slot the first row in which it overlaps with nothing.
func (l *lane) put(s slot) {
	for _, b := range l.bars { // the rank was free when its last operation before had ended
		before := b.from <= s.from || s.finding.Op != "message" && b.entry.Seq <= s.finding.Seq
		if !b.open() && before && b.to < s.to {
			s.from = max(s.from, b.to)
		}
	}
	taken := make([]bool, l.rows+1)
	for _, b := range l.bars {
		taken[b.row] = taken[b.row] || b.from < s.to && b.to > s.from
	}
	for _, o := range l.slots {
		taken[o.row] = taken[o.row] || o.from < s.to && o.to > s.from
	}
	s.row = slices.Index(taken, false)
	l.rows = max(l.rows, s.row+1)
	l.slots = append(l.slots, s)
}
