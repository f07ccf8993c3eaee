package trace

import (
	"fmt"
	"slices"

	"github.com/colligo-go/colligo/pg/flight"
)

// comparison is one group's part of a report.
type comparison struct {
	*job
	*group
	findings []Finding
	summary  GroupSummary
	shifted  bool // ranks have called different collectives
}

// turn is one collective as the members of a group have recorded it.
type turn struct {
	seq             uint64
	called          []*member // have recorded it
	waiting         []int     // of these, ranks that have not come out
	missing, absent []int     // have not called it; left no dump
}

// collectives compares all collectives of the group in their order.
func (c *comparison) collectives() {
	c.summary = GroupSummary{Name: c.name, Desc: c.desc, Ranks: c.memberRanks()}
	slices.Sort(c.summary.Ranks)
	done := true
	for _, seq := range c.seqs() {
		t := c.turn(seq)
		if len(t.called) > 1 {
			c.summary.Collectives++
		}
		done = done && len(t.waiting)+len(t.missing) == 0
		if done {
			c.summary.Done = seq
		}
		switch {
		case c.differs(t):
		case len(t.waiting) == 0 || c.shifted: // what comes after a call that differs says nothing more

		case len(t.absent) > 0 && c.stopped(t):
			c.lacksDump(t)
		case len(t.missing) > 0:
			c.lacks(t)
		default:
			c.stands(t)
		}
	}
}

func (c *comparison) turn(seq uint64) *turn {
	t := &turn{seq: seq}
	for _, m := range c.members {
		switch entries := m.calls[seq]; {
		case m.dump == nil:
			t.absent = append(t.absent, m.rank)
		case len(entries) > 0:
			t.called = append(t.called, m)
			if slices.ContainsFunc(entries, func(e *flight.Entry) bool { return e.State != flight.Completed }) {
				t.waiting = append(t.waiting, m.rank)
			}
		case m.lacks(seq):
			t.missing = append(t.missing, m.rank)
		}
	}
	return t
}

// first is what a member called, of several calls under one number the first.
func (t *turn) first(m *member) *flight.Entry { return m.calls[t.seq][0] }

// entries names the operations of a turn.
func (t *turn) entries() []Entry {
	var all []Entry
	for _, m := range t.called {
		for _, e := range m.calls[t.seq] {
			all = append(all, Entry{m.rank, e.ID})
		}
	}
	return all
}

// note adds a finding, or counts it with an earlier one of the group of the same kind and with the same ranks.
func (c *comparison) note(f Finding, t *turn) {
	f.Group, f.Seq, f.Entries = c.name, t.seq, t.entries()
	f.Op = opName(t.first(t.called[0]).Name)
	slices.Sort(f.Ranks)
	slices.Sort(f.Waiting)
	for i := range c.findings {
		old := &c.findings[i]
		if old.Kind == f.Kind && (f.Kind < Missing || slices.Equal(old.Ranks, f.Ranks)) {
			old.More++
			old.Entries = append(old.Entries, f.Entries...)
			return
		}
	}
	c.findings = append(c.findings, f)
}

// waiters says which ranks wait, and whether they gave up.
func (c *comparison) waiters(t *turn) string {
	for _, m := range t.called {
		if e := t.first(m); c.hasGivenUp(m.rank, e) && e.Timeout > 0 {
			return fmt.Sprintf("%s gave up, with a limit of %v", ranksText(t.waiting), e.Timeout)
		}
	}
	return ranksText(t.waiting) + verb(t.waiting, " waits", " wait")
}

// callers says where the program called a collective that some wait in.
func (c *comparison) callers(t *turn) []string {
	if at := place(c.waitingEntry(t)); at != "" {
		return []string{ranksText(t.waiting[:1]) + " called it at " + at}
	}
	return nil
}

// lacks notes that some members have not entered an operation in which others wait.
func (c *comparison) lacks(t *turn) {
	const most = 8
	f := Finding{Kind: Missing, Waiting: t.waiting, Details: c.callers(t)}
	var who, rest []int
	for i, rank := range t.missing {
		if c.idle(rank) {
			who = append(who, rank)
		} else {
			rest = append(rest, rank)
		}
		if i < most {
			f.Details = append(f.Details, c.whereabouts(rank))
		}
	}
	also := ""
	if who == nil {
		f.Kind, who, rest = Behind, t.missing, nil
	}
	if len(rest) > 0 {
		also = fmt.Sprintf(", nor %s %s, not by %s own doing", verb(rest, "has", "have"), ranksText(rest), verb(rest, "its", "their"))
	}
	if len(t.absent) > 0 {
		also += fmt.Sprintf(", and %s left no dump", ranksText(t.absent))
	}
	f.Ranks = append(slices.Clone(who), t.absent...)
	f.absent, f.waits = append(slices.Clone(t.missing), t.absent...), c.waiters(t)
	f.Text = fmt.Sprintf("%s of %s: %s %s not entered%s; %s", describe(c.waitingEntry(t)), c.label(), ranksText(who),
		verb(who, "has", "have"), also, f.waits)
	c.note(f, t)
}

// stopped reports whether all members that have not called left it out because their group had failed.
func (c *comparison) stopped(t *turn) bool {
	return !slices.ContainsFunc(t.missing, func(rank int) bool { return c.waits(rank) != nil || !c.excused(c.group, rank) })
}

// lacksDump notes that a collective stands still although all members with a dump have entered it, or had stopped before.
// Other members left no dump.
func (c *comparison) lacksDump(t *turn) {
	f := Finding{Kind: NoDump, Ranks: t.absent, Waiting: t.waiting, Details: c.callers(t), absent: t.absent, waits: c.waiters(t)}
	f.Text = fmt.Sprintf("%s of %s: %s left no dump; %s", describe(c.waitingEntry(t)), c.label(), ranksText(t.absent), f.waits)
	if len(t.missing) > 0 {
		f.Details = append(f.Details, fmt.Sprintf("the group had failed before %s called it", ranksText(t.missing)))
	}
	c.note(f, t)
}

// stands notes that all have entered and not all come out.
func (c *comparison) stands(t *turn) {
	var idle []int // have not begun
	for _, m := range t.called {
		if slices.Contains(t.waiting, m.rank) && t.first(m).State == flight.Scheduled {
			idle = append(idle, m.rank)
		}
	}
	if len(idle) == len(t.waiting) {
		idle = nil // as far as can be told
	}
	s := fmt.Sprintf("%s of %s: all ranks have entered, ", describe(c.waitingEntry(t)), c.label())
	if out := without(t.called, t.waiting); len(out) > 0 {
		s += fmt.Sprintf("%s %s come out; ", ranksText(out), verb(out, "has", "have"))
	} else {
		s += "none has come out; "
	}
	f := Finding{Kind: Stuck, Ranks: idle, Waiting: t.waiting, Text: s + c.waiters(t), Details: c.callers(t)}
	if len(idle) > 0 {
		f.Details = append(f.Details, fmt.Sprintf("it has not begun on %s", ranksText(idle)))
	}
	c.note(f, t)
}

// waitingEntry is the call of one of the waiting members.
func (c *comparison) waitingEntry(t *turn) *flight.Entry {
	for _, m := range t.called {
		if slices.Contains(t.waiting, m.rank) {
			return t.first(m)
		}
	}
	return t.first(t.called[0])
}

// without returns the ranks of members that are not in a list.
func without(ms []*member, ranks []int) []int {
	var all []int
	for _, m := range ms {
		if !slices.Contains(ranks, m.rank) {
			all = append(all, m.rank)
		}
	}
	return all
}
