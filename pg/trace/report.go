package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/colligo-go/colligo/pg/flight"
)

// Kind is what is wrong.
type Kind uint8

// The kinds, in the order in which a report has them.
const (
	TypeMismatch  Kind = iota // different collectives under one number
	DTypeMismatch             // different element types
	SizeMismatch              // different numbers of elements
	TagMismatch               // a send and a receive with different tags
	Missing                   // some have not entered what others wait in
	Blamed                    // a group has failed, and its ranks say whose doing it is
	NoDump                    // a rank left no dump
	Unmatched                 // a send without its receive, or the other way round
	Failed                    // a group has failed, and its ranks say why but not whose doing it is
	Stuck                     // all have entered, and not all come out
	Behind                    // Missing or Unmatched, by ranks that wait elsewhere or have stopped because their group failed
	Slow                      // a rank comes late again and again
)

var kindNames = [...]string{"type mismatch", "dtype mismatch", "size mismatch", "tag mismatch", "missing", "blamed", "no dump", "unmatched",
	"failed", "stuck", "behind", "slow"}

// String names the kind.
func (k Kind) String() string { return kindNames[k] }

// Entry names an operation: the rank that recorded it and its ID there.
type Entry struct {
	Rank int
	ID   int64
}

// Finding is one thing that is wrong.
type Finding struct {
	Kind    Kind
	Group   string  // its name, "" if the finding is about no group
	Op      string  // such as "all_reduce"
	Seq     uint64  // of the collective
	Ranks   []int   // whose doing it may be
	Waiting []int   // ranks that wait
	More    int     // later collectives of the group with which the same is wrong
	Entries []Entry // the operations concerned
	Text    string  // one line
	Details []string
	told    bool   // ranks say so too
	waits   string // what Text ends with, about the ranks that wait
	far     int    // from the cause; of several of one kind the nearest comes first
	cause   int    // index of the finding that this one follows from, plus 1; 0 for none

	absent []int  // ranks that have not called what others wait in
	lacks  string // what is missing of a message: its "send" or its "receive"
	diedAt int64  // when the processes of Ranks died, in nanoseconds since 1970; 0 if they did not, or if it is not known
	diedBy int    // the rank by whose clock
}

// order is the finding's place by its kind. Of findings that the records suggest, one that ranks report, too, comes first.
func (f *Finding) order() Kind {
	if f.told {
		return min(f.Kind, Blamed)
	}
	return f.Kind
}

// lines are the finding in full.
func (f *Finding) lines() []string {
	all := append([]string{f.Text}, f.Details...)
	if f.More > 0 {
		all = append(all, fmt.Sprintf("the same goes for %s after it", count(f.More, "collective")))
	}
	return all
}

// GroupSummary is how far a group has come.
type GroupSummary struct {
	Name, Desc  string
	Ranks       []int
	Collectives int    // compared
	Messages    int    // pairs of sends and receives compared
	Done        uint64 // highest number that all ranks with a dump have completed, 0 for none
	Slowest     string // one line about the collective that took longest, "" where nothing was measured
}

// Report is what Analyze finds.
type Report struct {
	Ranks    []int // with a dump
	Absent   []int // members of groups without a dump
	Groups   []GroupSummary
	Findings []Finding // the most telling first
	Notes    []string  // what limits the comparison
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

// Verdict is the report's first line.
func (r *Report) Verdict() string {
	if !r.OK() {
		return r.Findings[0].Text
	}
	collectives, messages := 0, 0
	for _, g := range r.Groups {
		collectives, messages = collectives+g.Collectives, messages+g.Messages
	}
	if len(r.Ranks) == 0 {
		return "nothing to compare: no dumps"
	}
	return fmt.Sprintf("all well: %s, %s: %s and %s agree", count(len(r.Ranks), "rank"), count(len(r.Groups), "group"),
		count(collectives, "collective"), count(messages, "message"))
}

// CauseOf returns the index of the finding of which finding i is a consequence, -1 if there is none.
func (r *Report) CauseOf(i int) int { return r.Findings[i].cause - 1 }

// String is the whole report: the verdict on the first line, then what else is wrong, the groups, and notes. Consequences
// stand under their cause.
func (r *Report) String() string {
	var b strings.Builder
	if r.OK() {
		fmt.Fprintln(&b, r.Verdict())
	}
	for i := range r.Findings {
		if r.CauseOf(i) >= 0 {
			continue
		}
		if i > 0 {
			b.WriteString("also:  ")
		}
		fmt.Fprintln(&b, strings.Join(r.Findings[i].lines(), "\n       "))
		r.consequences(&b, i, 1)
	}
	for _, g := range r.Groups {
		fmt.Fprintf(&b, "group: %s\n", g)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note:  %s\n", n)
	}
	return b.String()
}

// String is the group on one line.
func (g GroupSummary) String() string {
	s := fmt.Sprintf("%s, %s: %s and %s compared", label(g.Name, g.Desc), ranksText(g.Ranks), count(g.Collectives, "collective"),
		count(g.Messages, "message"))
	if g.Done > 0 {
		s += fmt.Sprintf(", all done up to #%d", g.Done)
	}
	if g.Slowest != "" {
		s += "; " + g.Slowest
	}
	return oneLine(s)
}

// Analyze compares the dumps of a job, by the ranks that left them.
func Analyze(dumps map[int]*flight.Dump) *Report {
	j := newJob(dumps)
	r := &Report{Ranks: j.ranks}
	absent := map[int]bool{}
	for _, g := range j.groups {
		for _, m := range g.members {
			absent[m.rank] = absent[m.rank] || m.dump == nil
		}
		c := comparison{job: j, group: g}
		c.collectives()
		c.messages()
		c.slow()
		r.Findings = append(r.Findings, c.findings...)
		r.Groups = append(r.Groups, c.summary)
	}
	for rank, is := range absent {
		if is {
			r.Absent = append(r.Absent, rank)
		}
	}
	slices.Sort(r.Absent)
	r.Findings = append(r.Findings, withoutDump(r)...)
	r.sort()
	for _, g := range j.groups {
		r.failures(j, g)
	}
	r.sort()
	r.findCauses()
	r.Notes = j.notes()
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Text = oneLine(clip(f.Text, mostWords))
		for k, d := range f.Details {
			f.Details[k] = oneLine(clip(d, mostWords))
		}
	}
	for i, n := range r.Notes {
		r.Notes[i] = oneLine(clip(n, mostWords))
	}
	return r
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.far, b.far))
	})
}

// withoutDump names absent ranks that no finding names yet.
func withoutDump(r *Report) []Finding {
	unnamed := slices.DeleteFunc(slices.Clone(r.Absent), func(rank int) bool {
		return slices.ContainsFunc(r.Findings, func(f Finding) bool { return slices.Contains(f.Ranks, rank) })
	})
	if len(unnamed) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s left no dump; nobody waits for %s", ranksText(unnamed), verb(unnamed, "it", "them"))
	return []Finding{{Kind: NoDump, Ranks: unnamed, Text: text}}
}
