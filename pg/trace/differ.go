package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/colligo-go/colligo/pg/flight"
)

// differs compares what ranks called under one number, first what, then of which type, then how much.
func (c *comparison) differs(t *turn) bool {
	if len(t.called) < 2 {
		return false
	}
	for _, check := range []struct {
		kind Kind
		of   func(*member) string
		says func(*flight.Entry) string
	}{
		{TypeMismatch, func(m *member) string { return t.all(m, func(e *flight.Entry) string { return family(e.Name) }) }, call},
		{DTypeMismatch, func(m *member) string { return t.all(m, dtype) }, dtype},
		{SizeMismatch, func(m *member) string { return t.all(m, extent) }, tensors},
	} {
		if parties := split(t.called, check.of); len(parties) > 1 && (check.kind == TypeMismatch || !c.shifted) {
			c.disagree(t, check.kind, parties, check.says)
			return true
		}
	}
	return !c.shifted && c.unevenDiffers(t)
}

// call is what was called, without its number.
func call(e *flight.Entry) string {
	if s := tensors(e); s != "" {
		return fmt.Sprintf("%s (%s)", opName(e.Name), s)
	}
	return opName(e.Name)
}

// all is a property of all calls that a member made under one number. The entry that stands for several is left out, for
// another rank may have called one of them only.
func (t *turn) all(m *member, of func(*flight.Entry) string) string {
	calls := m.calls[t.seq]
	if last := len(calls) - 1; last > 0 && opName(calls[last].Name) == "coalesced" {
		calls = calls[:last]
	}
	parts := make([]string, len(calls))
	for i, e := range calls {
		parts[i] = of(e)
	}
	return strings.Join(parts, ", ")
}

// party is members that agree.
type party struct {
	is      string
	members []*member
}

func (p party) ranks() []int {
	ranks := without(p.members, nil)
	slices.Sort(ranks)
	return ranks
}

// split divides members by a property, the largest party last, so that members that stand alone come first. Members without
// the property belong to none.
func split(ms []*member, of func(*member) string) []party {
	var parties []party
	for _, m := range ms {
		is := of(m)
		i := slices.IndexFunc(parties, func(p party) bool { return p.is == is })
		switch {
		case strings.Trim(is, ", ") == "":
		case i < 0:
			parties = append(parties, party{is, []*member{m}})
		default:
			parties[i].members = append(parties[i].members, m)
		}
	}
	slices.SortStableFunc(parties, func(a, b party) int { return len(a.members) - len(b.members) })
	return parties
}

// disagree notes parties that called different things.
func (c *comparison) disagree(t *turn, kind Kind, parties []party, says func(*flight.Entry) string) {
	what := map[Kind]string{TypeMismatch: "the calls", DTypeMismatch: "the element types", SizeMismatch: "the sizes"}[kind]
	subject := fmt.Sprintf("collective #%d", t.seq)
	if kind != TypeMismatch {
		subject = fmt.Sprintf("%s #%d", opName(t.first(parties[0].members[0]).Name), t.seq)
	}
	const most = 4
	var sides []string
	f := Finding{Kind: kind, Waiting: t.waiting}
	due := kind == TypeMismatch && c.moveDue(t, parties)
	for i, p := range parties {
		if i < most {
			sides = append(sides, fmt.Sprintf("%s %s %s", ranksText(p.ranks()), verb(p.ranks(), "has", "have"), t.all(p.members[0], says)))
		}
		if last := len(parties) - 1; i < last || !due && len(p.members) == len(parties[last-1].members) { // only a majority is beyond doubt
			f.Ranks = append(f.Ranks, p.ranks()...)
		}
	}
	if len(parties) > most {
		sides = append(sides, fmt.Sprintf("and %d more ways", len(parties)-most))
	}
	f.Text = fmt.Sprintf("%s of %s: %s differ: %s", subject, c.label(), what, strings.Join(sides, ", "))
	if due {
		f.Text += ", which is what came here before"
	}
	if kind == TypeMismatch {
		f.Details = c.order(t, parties)
		c.shifted = true
	}
	for i, p := range parties {
		if at := place(t.first(p.members[0])); at != "" && i < most {
			f.Details = append(f.Details, ranksText(p.ranks()[:1])+" called at "+at)
		}
	}
	c.note(f, t)
}

// moveDue is for parties of which none is a majority. It puts last the party whose call followed when the group had called
// the same before. It reports whether there is one.
func (c *comparison) moveDue(t *turn, parties []party) bool {
	last := len(parties) - 1
	if len(parties[last].members) > len(parties[last-1].members) {
		return false
	}
	due := next(c.before(t.seq))
	i := slices.IndexFunc(parties, func(p party) bool { return p.is == due })
	if i < 0 || due == "" {
		return false
	}
	p := parties[i]
	copy(parties[i:], parties[i+1:])
	parties[last] = p
	return true
}

// before is what the group called last before a number, as far as it is known without a gap.
func (c *comparison) before(seq uint64) []string {
	const most = 256
	var names []string
	for seq--; seq > 0 && len(names) < most; seq-- {
		i := slices.IndexFunc(c.members, func(m *member) bool { return len(m.calls[seq]) > 0 })
		if i < 0 {
			break
		}
		t := turn{seq: seq}
		names = append(names, t.all(c.members[i], func(e *flight.Entry) string { return family(e.Name) }))
	}
	slices.Reverse(names)
	return names
}

// next is what came after the longest part of a sequence that its end repeats, of several the last; "" if it repeats none.
func next(names []string) string {
	best, due := 0, ""
	for at := 1; at < len(names); at++ {
		n := 0
		for n < at && names[at-1-n] == names[len(names)-1-n] {
			n++
		}
		if n > 0 && n >= best {
			best, due = n, names[at]
		}
	}
	return due
}

// order looks for the first party's call of now among the largest party's next calls, and the other way round.
func (c *comparison) order(t *turn, parties []party) []string {
	odd, most := parties[0], parties[len(parties)-1]
	for ahead := uint64(1); ahead <= 10; ahead++ {
		later := &turn{seq: t.seq + ahead}
		name := func(m *member) string { return later.all(m, func(e *flight.Entry) string { return family(e.Name) }) }
		if o, m := name(odd.members[0]) == most.is, name(most.members[0]) == odd.is; o && m {
			return []string{fmt.Sprintf("the order differs: %s %s the same two as #%d and #%d", ranksText(odd.ranks()),
				verb(odd.ranks(), "calls", "call"), t.seq, later.seq)}
		} else if o != m {
			who, what := odd, most.is
			if m {
				who, what = most, odd.is
			}
			return []string{fmt.Sprintf("%s %s %s as #%d", ranksText(who.ranks()), verb(who.ranks(), "calls", "call"), what, later.seq)}
		}
	}
	return nil
}

// family is what ranks have to agree on of a name: forms of one collective that are the same between ranks have one family.
func family(profiling string) string {
	name := strings.TrimPrefix(opName(profiling), "_")
	for _, s := range []string{"_oop", "_base"} {
		name = strings.TrimSuffix(name, s)
	}
	switch name {
	case "ALLGATHER_coalesced", "all_gather_into_tensor_coalesced":
		return "all_gather_coalesced"
	case "REDUCE_SCATTER_coalesced", "reduce_scatter_tensor_coalesced":
		return "reduce_scatter_coalesced"
	}
	return name
}

// extent is the number of elements as far as ranks have to agree on it.
func extent(e *flight.Entry) string {
	in, out := elements(e.InSizes), elements(e.OutSizes)
	switch family(e.Name) {
	case "all_reduce", "broadcast", "reduce", "allreduce_coalesced":
		if in != "" {
			return in
		}
		return out
	case "gather":
		return in
	case "scatter":
		return out
	case "all_gather":
		if len(e.OutSizes) > 1 { // each rank may bring another number
			return out
		}
		return in
	case "reduce_scatter":
		if len(e.InSizes) > 1 {
			return in
		}
		return out
	}
	return "" // a barrier, or a collective whose ranks bring what they like
}

// elements lists the number of elements of each tensor.
func elements(sizes [][]int64) string {
	parts := make([]string, len(sizes))
	for i, s := range sizes {
		parts[i] = strconv.FormatInt(product(s), 10)
	}
	return strings.Join(parts, " ")
}

func product(sizes []int64) int64 {
	n := int64(1)
	for _, s := range sizes {
		n *= s
	}
	return n
}

// unevenDiffers compares what an all-to-all takes in with what it gives out, if all ranks have recorded it.
func (c *comparison) unevenDiffers(t *turn) bool {
	in, out := int64(0), int64(0)
	for _, m := range t.called {
		e := t.first(m)
		switch {
		case family(e.Name) != "all_to_all" || len(m.calls[t.seq]) > 1 || len(t.called) < len(c.members):
			return false
		case len(e.InSizes) == 0 || len(e.OutSizes) == 0:
			return false
		}
		for _, s := range e.InSizes {
			in += product(s)
		}
		for _, s := range e.OutSizes {
			out += product(s)
		}
	}
	if in == out {
		return false
	}
	e := t.first(t.called[0])
	text := fmt.Sprintf("%s #%d of %s: the sizes differ: the ranks together give %d elements and expect %d", opName(e.Name), t.seq,
		c.label(), in, out)
	c.note(Finding{Kind: SizeMismatch, Waiting: t.waiting, Text: text}, t)
	return true
}
