package trace

import (
	"fmt"
	"slices"
	"strings"
)

// testimony is why a group has failed, as some of its ranks say.
type testimony struct {
	by    []int
	blame []int // whose doing it is
	text  string
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
		all[i].by = append(all[i].by, rank)
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
			continue
		}
		f := Finding{Kind: Blamed, Group: g.name, Ranks: t.blame}
		f.Waiting = slices.DeleteFunc(slices.Clone(t.by), func(rank int) bool { return slices.Contains(t.blame, rank) })
		f.Text = fmt.Sprintf("%s failed because of %s, %s %s: %s", g.label(), ranksText(t.blame), verb(t.by, "says", "say"),
			ranksText(t.by), t.text)
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
