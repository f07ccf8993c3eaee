package trace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/colligo-go/colligo/pg/flight"
)

// testimony is why a group has failed, as some of its ranks say.
type testimony struct {
	by    []int
	blame []int // whose doing it is
	text  string
	first int64 // when the first of the ranks says that the group failed, in nanoseconds since 1970; 0 if none says when
	clock int   // that rank
}

// died reports whether the ranks that are blamed are gone: their processes have died, as far as others can tell.
func (t *testimony) died() bool {
	return len(t.blame) > 0 && strings.Contains(t.text, "the process died")
}

// testimonies are the failures that the ranks of a group report, by the ranks that they name. The ones that most ranks
// report come first.
func (j *job) testimonies(g *group) []testimony {
	var all []testimony
	for _, rank := range j.ranks {
		f, ok := j.dumps[rank].Failures[g.name]
		if !ok || g.member(rank) == nil {
			continue
		}
		blame := slices.Sorted(slices.Values(f.Ranks))
		i := slices.IndexFunc(all, func(t testimony) bool { return slices.Equal(t.blame, blame) })
		if i < 0 {
			i = len(all)
			all = append(all, testimony{blame: blame, text: strings.Join(strings.Fields(clip(f.Text, mostWords)), " ")})
		}
		t := &all[i]
		if t.by = append(t.by, rank); f.Time > 0 && (t.first == 0 || f.Time < t.first) {
			t.first, t.clock = f.Time, rank
		}
	}
	slices.SortStableFunc(all, func(a, b testimony) int { return len(b.by) - len(a.by) })
	return all
}

// excused reports whether a rank has stopped because its group failed, and not by its own doing as far as it knows.
func (j *job) excused(g *group, rank int) bool {
	f := j.dumps[rank].Failures[g.name]
	return len(f.Ranks) > 0 && !slices.Contains(f.Ranks, rank)
}

// idle reports whether a rank waits for nothing, and has not stopped because its group failed.
func (c *comparison) idle(rank int) bool { return c.waits(rank) == nil && !c.excused(c.group, rank) }

// failures adds what the ranks of a group say, to the finding that says the same, else as one of its own.
func (r *Report) failures(j *job, g *group) {
	for _, t := range j.testimonies(g) {
		detail := fmt.Sprintf("%s %s: %s", ranksText(t.by), verb(t.by, "says", "say"), t.text)
		if i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.confirmed(g, t.blame) }); i >= 0 {
			f := &r.Findings[i]
			f.Details, f.told = append(f.Details, detail), true
			if t.died() && slices.Equal(f.Ranks, t.blame) {
				j.tellDeath(g, f, &t)
			}
			continue
		}
		f := Finding{Kind: Blamed, Group: g.name, Ranks: t.blame}
		f.Waiting = slices.DeleteFunc(slices.Clone(t.by), func(rank int) bool { return slices.Contains(t.blame, rank) })
		f.Text = fmt.Sprintf("%s failed because of %s, %s %s: %s", g.label(), ranksText(t.blame), verb(t.by, "says", "say"),
			ranksText(t.by), t.text)
		if t.died() {
			f.diedAt, f.diedBy, f.absent = t.first, t.clock, t.blame
			f.Text = fmt.Sprintf("%s died%s, so %s failed, %s %s: %s", ranksText(t.blame), t.when(), g.label(), verb(t.by, "says", "say"),
				ranksText(t.by), t.text)
		}
		if len(t.blame) == 0 {
			f.Kind, f.Text = Failed, fmt.Sprintf("%s failed, %s %s: %s", g.label(), verb(t.by, "says", "say"), ranksText(t.by), t.text)
		}
		r.Findings = append(r.Findings, f)
	}
}

// confirmed reports whether a finding is about the same as what ranks of a group say.
func (f *Finding) confirmed(g *group, blame []int) bool {
	switch {
	case f.Group != g.name && f.Group != "" || f.Kind == Slow || f.Kind == Failed:
		return false
	case f.Kind < Missing:
		return len(blame) == 0 || !slices.ContainsFunc(blame, func(rank int) bool { return !slices.Contains(f.Ranks, rank) })
	}
	return len(blame) > 0 && slices.Equal(f.Ranks, blame)
}

// tellDeath words a finding about ranks whose processes died.
func (j *job) tellDeath(g *group, f *Finding, t *testimony) {
	f.diedAt, f.diedBy = t.first, t.clock
	f.Text = fmt.Sprintf("%s died%s: %s", ranksText(t.blame), t.when(), strings.TrimSuffix(f.Text, f.waits))
	if f.waits != "" {
		f.Text += j.hadWaited(g, f)
	}
	f.waits = ""
}

// when says when ranks died, "" if nobody says it.
func (t *testimony) when() string {
	if t.first == 0 {
		return ""
	}
	return " at " + clock(t.first)
}

// hadWaited says which ranks waited as their group failed, and how long the first of them had.
func (j *job) hadWaited(g *group, f *Finding) string {
	most := int64(0)
	for _, at := range f.Entries {
		d := j.dumps[at.Rank]
		i := slices.IndexFunc(d.Entries, func(e flight.Entry) bool { return e.ID == at.ID })
		if i >= 0 && d.Entries[i].State != flight.Completed {
			most = max(most, d.Failures[g.name].Time-d.Entries[i].Created)
		}
	}
	if most == 0 {
		return ranksText(f.Waiting) + " waited"
	}
	return ranksText(f.Waiting) + " had waited " + duration(most)
}
