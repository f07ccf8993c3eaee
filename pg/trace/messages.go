package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/colligo-go/colligo/pg/flight"
)

// channel is the sends from one rank to another and their receives, by ranks in the group.
type channel struct{ from, to int }

// ends are the two sides of a channel, in the order of the calls.
type ends struct{ sends, receives []*flight.Entry }

// parsePair reads "nccl:send 0->1" and "nccl:recv 1<-0". A receive from any rank has a negative peer.
func parsePair(name string) (at channel, send, ok bool) {
	op, rest, _ := strings.Cut(opName(name), " ")
	arrow := map[string]string{"send": "->", "recv": "<-"}[op]
	if arrow == "" {
		return channel{}, false, false
	}
	mine, peer, _ := strings.Cut(rest, arrow)
	me, err1 := strconv.Atoi(mine)
	other, err2 := strconv.Atoi(peer)
	if op == "send" {
		return channel{me, other}, true, err1 == nil && err2 == nil
	}
	return channel{other, me}, false, err1 == nil && err2 == nil
}

// messages compares sends with receives.
func (c *comparison) messages() {
	channels := map[channel]*ends{}
	fromAny := map[int]bool{} // ranks whose receives may take anybody's sends
	for _, m := range c.members {
		for _, e := range m.pairs {
			at, send, ok := parsePair(e.Name)
			switch {
			case !ok:
				continue
			case at.from < 0:
				fromAny[at.to] = true
				continue
			case channels[at] == nil:
				channels[at] = &ends{}
			}
			if x := channels[at]; send {
				x.sends = append(x.sends, e)
			} else {
				x.receives = append(x.receives, e)
			}
		}
	}
	order := make([]channel, 0, len(channels))
	for at := range channels {
		order = append(order, at)
	}
	slices.SortFunc(order, func(a, b channel) int { return (a.from-b.from)<<20 + a.to - b.to })
	for _, at := range order {
		from, to := c.at(at.from), c.at(at.to)
		switch x := channels[at]; {
		case from == nil || to == nil:
		case from.dump == nil && to.told():
			c.unheard(from, to, pending(x.receives), "receive")
		case to.dump == nil && from.told():
			c.unheard(to, from, pending(x.sends), "send")
		case from.told() && to.told() && !fromAny[at.to]:
			c.channel(from, to, x)
		}
	}
	for _, m := range c.members {
		c.unanswered(m, channels)
	}
}

// unheard notes messages that wait for a rank that left no dump.
func (c *comparison) unheard(silent, here *member, left []*flight.Entry, what string) {
	if len(left) == 0 {
		return
	}
	e := left[0]
	says := fmt.Sprintf("rank %d waits to %s %s %s it in %s", here.rank, what, tensors(e), way(what), c.label())
	for i := range c.findings {
		if f := &c.findings[i]; f.Kind == NoDump && f.Op == "message" && f.Ranks[0] == silent.rank {
			f.Details, f.Waiting = append(f.Details, says), append(f.Waiting, here.rank)
			f.Entries = append(f.Entries, Entry{here.rank, e.ID})
			return
		}
	}
	c.pairFinding(Finding{Kind: NoDump, Ranks: []int{silent.rank}, Waiting: []int{here.rank}, absent: []int{silent.rank},
		Text: fmt.Sprintf("rank %d left no dump; %s", silent.rank, says)}, e, Entry{here.rank, e.ID})
}

// unanswered notes that a rank waits to receive from any, and nobody sends to it.
func (c *comparison) unanswered(here *member, channels map[channel]*ends) {
	i := slices.IndexFunc(here.pairs, func(e *flight.Entry) bool {
		at, send, ok := parsePair(e.Name)
		return ok && !send && at.from < 0 && e.State != flight.Completed
	})
	if i < 0 {
		return
	}
	var idle, absent []int
	for rank, m := range c.members {
		at, _, _ := parsePair(here.pairs[i].Name)
		if x := channels[channel{rank, at.to}]; x != nil && len(pending(x.sends)) > 0 {
			return
		}
		switch {
		case m.dump == nil:
			absent = append(absent, m.rank)
		case m != here && c.idle(m.rank):
			idle = append(idle, m.rank)
		}
	}
	e := here.pairs[i]
	f := Finding{Kind: Behind, Waiting: []int{here.rank}}
	f.Text = fmt.Sprintf("rank %d receives %s from any rank in %s, and none sends", here.rank, tensors(e), c.label())
	switch {
	case absent != nil:
		f.Kind, f.Ranks, f.absent = NoDump, absent, absent
		f.Text += fmt.Sprintf("; %s left no dump", ranksText(absent))
	case idle != nil:
		f.Kind, f.Ranks = Unmatched, idle
		f.Text += fmt.Sprintf("; %s %s idle", ranksText(idle), verb(idle, "is", "are"))
	}
	c.pairFinding(f, e, Entry{here.rank, e.ID})
}

// at is the member with a rank in the group, nil if there is none.
func (c *comparison) at(rank int) *member {
	if rank < 0 || rank >= len(c.members) {
		return nil
	}
	return c.members[rank]
}

// told reports whether there is a dump of what a member did.
func (m *member) told() bool { return m != nil && m.dump != nil && m.dump.Entries != nil }

// channel compares the two ends of a channel. Messages of one size may pass one another, as tags allow. Where both sides have
// recorded their tags, ends of one tag belong together. Tags that differ do no harm where both ends are done. Where a recorder
// has lost its first operations only waiting ones are compared: the others are done, as far as can be known.
func (c *comparison) channel(from, to *member, x *ends) {
	sends, receives := x.sends, x.receives
	if from.lost || to.lost {
		sends, receives = pending(sends), pending(receives)
	}
	fits := func(s, r *flight.Entry) {
		c.summary.Messages++
		c.halfDone(from, to, s, r)
	}
	unlike := func(s, r *flight.Entry) { c.unlike(from, to, s, r) }
	tagged := func(e *flight.Entry) string { return tagOf(e) + " " + message(e) }
	if slices.ContainsFunc(sends, untagged) || slices.ContainsFunc(receives, untagged) {
		tagged = message
	}
	sends, receives = pair(sends, receives, tagged, fits)
	sends, receives = pair(sends, receives, ofDone, fits)
	sends, receives = pair(sends, receives, tagOf, unlike)
	sends, receives = pair(sends, receives, message, unlike)
	sends, receives = pair(sends, receives, func(*flight.Entry) string { return "" }, unlike)
	c.lonely(from, to, sends, "send", "receive")
	c.lonely(to, from, receives, "receive", "send")
}

// pair brings together sends and receives that have the same key, in the order of their calls, and returns the others.
func pair(sends, receives []*flight.Entry, key func(*flight.Entry) string, met func(s, r *flight.Entry)) (s, r []*flight.Entry) {
	waiting, gone := map[string][]*flight.Entry{}, map[*flight.Entry]bool{}
	for _, e := range receives {
		waiting[key(e)] = append(waiting[key(e)], e)
	}
	for _, e := range sends {
		fit := waiting[key(e)]
		if len(fit) == 0 {
			s = append(s, e)
			continue
		}
		met(e, fit[0])
		waiting[key(e)], gone[fit[0]] = fit[1:], true
	}
	return s, slices.DeleteFunc(slices.Clone(receives), func(e *flight.Entry) bool { return gone[e] })
}

// ofDone is the element type and number of elements of a message that is done on its side. Others have keys that fit none.
func ofDone(e *flight.Entry) string {
	if e.State != flight.Completed {
		return opName(e.Name)
	}
	return message(e)
}

func untagged(e *flight.Entry) bool { return !e.Tagged }

// tagOf is a message's tag, "" if it is not known.
func tagOf(e *flight.Entry) string {
	if !e.Tagged {
		return ""
	}
	return strconv.Itoa(int(e.Tag))
}

func pending(all []*flight.Entry) []*flight.Entry {
	return slices.DeleteFunc(slices.Clone(all), func(e *flight.Entry) bool { return e.State == flight.Completed })
}

// message is the element type and number of elements of a message.
func message(e *flight.Entry) string {
	if len(e.InSizes) > 0 {
		return dtype(e) + " " + elements(e.InSizes)
	}
	return dtype(e) + " " + elements(e.OutSizes)
}

// pairFinding adds a finding about messages; the first entry's caller is named.
func (c *comparison) pairFinding(f Finding, caller *flight.Entry, entries ...Entry) {
	f.Group, f.Op, f.Entries = c.name, "message", entries
	if at := place(caller); at != "" {
		f.Details = append([]string{fmt.Sprintf("rank %d called at %s", entries[0].Rank, at)}, f.Details...)
	}
	c.findings = append(c.findings, f)
}

// unlike notes a send and a receive that do not fit.
func (c *comparison) unlike(from, to *member, s, r *flight.Entry) {
	f := Finding{Kind: SizeMismatch, Ranks: []int{from.rank, to.rank}}
	what, sent, received := "the sizes differ", tensors(s), tensors(r)
	switch {
	case tagOf(s) != tagOf(r):
		f.Kind, what = TagMismatch, "the tags differ"
		sent, received = strings.TrimSpace(sent+" with tag "+tagOf(s)), strings.TrimSpace(received+" with tag "+tagOf(r))
	case dtype(s) != dtype(r):
		f.Kind, what = DTypeMismatch, "the element types differ"
	}
	f.Text = fmt.Sprintf("message from rank %d to rank %d in %s: %s: rank %d sends %s, rank %d receives %s", from.rank, to.rank,
		c.label(), what, from.rank, sent, to.rank, received)
	for _, e := range []struct {
		m    *member
		call *flight.Entry
	}{{from, s}, {to, r}} {
		if e.call.State != flight.Completed {
			f.Waiting = append(f.Waiting, e.m.rank)
		}
	}
	if at := place(r); at != "" {
		f.Details = []string{fmt.Sprintf("rank %d called at %s", to.rank, at)}
	}
	c.pairFinding(f, s, Entry{from.rank, s.ID}, Entry{to.rank, r.ID})
}

// lonely notes operations that have no other end.
func (c *comparison) lonely(here, there *member, left []*flight.Entry, has, lacks string) {
	if len(left) == 0 {
		return
	}
	e := left[0]
	f := Finding{Kind: Unmatched, Ranks: []int{there.rank}, absent: []int{there.rank}, lacks: lacks}
	switch held := c.waits(there.rank); {
	case held == nil && c.excused(c.group, there.rank):
		f.Kind = Behind
	case held != nil && held.P2P: // it waits for a message itself
		f.far = 4
	case held != nil:
		f.far = 2
	}
	f.Text = fmt.Sprintf("rank %d %ss %s %s rank %d in %s, which does not %s it", here.rank, has, tensors(e), way(has), there.rank, c.label(),
		lacks)
	if e.State == flight.Completed {
		f.far++
		f.Text += fmt.Sprintf("; the %s is done all the same", has)
	} else {
		f.Waiting = []int{here.rank}
		f.Details = append(f.Details, c.whereabouts(there.rank))
	}
	if n := len(left) - 1; n > 0 {
		f.Details = append(f.Details, fmt.Sprintf("and %d more like it", n))
	}
	var entries []Entry
	for _, l := range left {
		entries = append(entries, Entry{here.rank, l.ID})
	}
	c.pairFinding(f, e, entries...)
}

// way is the word between what is sent or received and the peer.
func way(what string) string {
	if what == "receive" {
		return "from"
	}
	return "to"
}

// halfDone notes a message whose two ends are called and that does not arrive.
func (c *comparison) halfDone(from, to *member, s, r *flight.Entry) {
	if r.State == flight.Completed {
		return
	}
	text := fmt.Sprintf("message from rank %d to rank %d in %s (%s): both have called, and it has not arrived", from.rank, to.rank,
		c.label(), tensors(s))
	c.pairFinding(Finding{Kind: Stuck, Waiting: []int{to.rank}, Text: text}, r, Entry{to.rank, r.ID}, Entry{from.rank, s.ID})
}
