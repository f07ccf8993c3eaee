package cudasim

import "unsafe"

// A clock says for each slot (a stream, a block of its kernels, a host) how far it is known. Clocks are copied by freeze only, and
// share their sheets, each until one of the sharers changes it.
type clock struct {
	sheets []*sheet
	mark   *mark // on the sheets that are the clock's alone; nil: none are, nor is the slice

	joined     [4]**sheet // where frozen slices begin that the clock has joined last
	nextJoined int
}

const sheetSlots = 64

type sheet struct {
	epochs [sheetSlots]uint32
	mark   *mark
}

// A mark is one time between two freezes of one clock.
type mark struct{ _ byte }

//go:norace
func (c *clock) at(slot int) uint32 {
	if i := slot / sheetSlots; i < len(c.sheets) && c.sheets[i] != nil {
		return c.sheets[i].epochs[slot%sheetSlots]
	}
	return 0
}

// freeze returns a copy; c and the copy will each make sheets of their own before they change any.
//
//go:norace
func (c *clock) freeze() clock {
	c.mark = nil
	return clock{sheets: c.sheets}
}

// own makes the slice c's alone, and long enough for sheet i.
//
//go:norace
func (c *clock) own(i int) {
	if c.mark != nil && i < len(c.sheets) {
		return
	}
	sheets := make([]*sheet, max(i+1, len(c.sheets)))
	for i := range c.sheets { // the detector would see into copy
		p := c.sheets[i]
		sheets[i] = p
	}
	c.sheets = sheets
	if c.mark == nil {
		c.mark = new(mark)
	}
}

// sheet returns sheet i to change.
//
//go:norace
func (c *clock) sheet(i int) *sheet {
	c.own(i)
	p := c.sheets[i]
	if p == nil || p.mark != c.mark {
		n := &sheet{mark: c.mark}
		if p != nil {
			n.epochs = p.epochs
		}
		c.sheets[i], p = n, n
	}
	return p
}

//go:norace
func (c *clock) raise(slot int, epoch uint32) {
	if c.at(slot) < epoch {
		c.sheet(slot / sheetSlots).epochs[slot%sheetSlots] = epoch
	}
}

//go:norace
func (c *clock) join(o *clock) {
	if o.mark == nil && c.has(o.sheets) {
		return
	}
	if len(c.sheets) == 0 && o.mark == nil {
		c.sheets, c.mark = o.sheets, nil
		return
	}
	if len(c.sheets) < len(o.sheets) { // once, not for each sheet
		c.own(len(o.sheets) - 1)
	}
	for i, its := range o.sheets {
		if its == nil || i < len(c.sheets) && c.sheets[i] == its {
			continue
		}
		c.joinSheet(i, its, o.mark == nil)
	}
}

// joinFrozen takes over what a frozen clock with these sheets has seen.
//
//go:norace
func (c *clock) joinFrozen(sheets []*sheet) { c.join(&clock{sheets: sheets}) }

// has reports whether the clock has joined a frozen slice lately, and notes that it does. An actor that polls a flag finds the same
// slice again and again, and a block publishes one slice until its next fence.
//
//go:norace
func (c *clock) has(frozen []*sheet) bool {
	if len(frozen) == 0 {
		return true
	}
	for _, first := range c.joined {
		if first == &frozen[0] {
			return true
		}
	}
	c.joined[c.nextJoined] = &frozen[0]
	c.nextJoined = (c.nextJoined + 1) % len(c.joined)
	return false
}

// joinSheet shares the other sheet, which may be frozen, where it knows all that c's does.
//
//go:norace
func (c *clock) joinSheet(i int, its *sheet, frozen bool) {
	more, less := true, false
	if i < len(c.sheets) && c.sheets[i] != nil {
		more, less = its.against(c.sheets[i])
	}
	switch {
	case !more && !less:
		if frozen && c.mark != nil { // equal: one sheet for both is found equal at once
			c.sheets[i] = its
		}
	case !more:
	case !less && frozen:
		c.own(i)
		c.sheets[i] = its
	default:
		its.raise(c.sheet(i))
	}
}

// against reports whether p knows more than o of a slot, and whether it knows less of one. Like all of this file it only looks at memory
// that the Sim's lock guards. So Go's race detector is kept from it. It would look at arrays that are compared as a whole, and at slices
// that are copied, all the same.
//
//go:norace
func (p *sheet) against(o *sheet) (more, less bool) {
	a, b := p.pairs(), o.pairs()
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		p0, p1, o0, o1 := p.epochs[2*i], p.epochs[2*i+1], o.epochs[2*i], o.epochs[2*i+1]
		more, less = more || p0 > o0 || p1 > o1, less || p0 < o0 || p1 < o1
		if more && less {
			break
		}
	}
	return more, less
}

// pairs are the epochs, two in a word.
//
//go:norace
func (p *sheet) pairs() *[sheetSlots / 2]uint64 {
	return (*[sheetSlots / 2]uint64)(unsafe.Pointer(&p.epochs))
}

// raise makes o know all that p does.
//
//go:norace
func (p *sheet) raise(o *sheet) {
	for i := range p.epochs {
		o.epochs[i] = max(o.epochs[i], p.epochs[i])
	}
}

// knowledge orders an actor after others. Clock hb has the accesses whose effect the actor must see. Clock seen has the
// accesses that are over, which are more. For LL data shows that its sender had consumed earlier LL data, not that the
// sender's writes have arrived.
type knowledge struct{ hb, seen clock }

//go:norace
func (k *knowledge) join(s *stamp) {
	k.hb.joinFrozen(s.hb)
	k.hb.raise(s.slot, s.hbEpoch)
	k.seen.joinFrozen(s.seen)
	k.seen.raise(s.slot, s.seenEpoch)
}

//go:norace
func (k *knowledge) merge(o knowledge) {
	k.hb.join(&o.hb)
	k.seen.join(&o.seen)
}

//go:norace
func (k *knowledge) freeze() knowledge { return knowledge{k.hb.freeze(), k.seen.freeze()} }

// A stamp is published by an actor: its knowledge and its own position.
type stamp struct {
	hb, seen           []*sheet // of frozen clocks
	slot               int
	hbEpoch, seenEpoch uint32
}

// An actor does one thing after another: a stream, a block of a kernel, a host. Its accesses since the last thing it
// published carry its epoch.
type actor struct {
	knowledge
	slot        int
	epoch       uint32
	born        uint32 // the epoch in which replace gave the actor its knowledge; it has lost none since
	fenced      clock  // hb at the last fence, which a volatile store publishes
	fencedEpoch uint32
	pending     clock // knowledge from volatile loads, which counts from the next fence on
}

// replace makes k all that a knows.
//
//go:norace
func (a *actor) replace(k knowledge) {
	a.knowledge, a.pending, a.born = k, clock{}, a.epoch
}

// release publishes everything.
//
//go:norace
func (a *actor) release() *stamp {
	s := &stamp{a.hb.freeze().sheets, a.seen.freeze().sheets, a.slot, a.epoch, a.epoch}
	a.epoch++
	return s
}

// relaxed publishes the knowledge that a volatile store or LL data carries.
//
//go:norace
func (a *actor) relaxed() *stamp {
	s := &stamp{a.fenced.freeze().sheets, a.seen.freeze().sheets, a.slot, a.fencedEpoch, a.epoch}
	a.epoch++
	return s
}

// observe takes over the knowledge that a volatile load or LL data brings.
//
//go:norace
func (a *actor) observe(s *stamp) {
	a.pending.joinFrozen(s.hb)
	a.pending.raise(s.slot, s.hbEpoch)
	a.seen.joinFrozen(s.seen)
	a.seen.raise(s.slot, s.seenEpoch)
}

//go:norace
func (a *actor) fence() {
	a.hb.join(&a.pending)
	a.pending = clock{}
	a.fenced = a.hb.freeze()
	a.fencedEpoch = a.epoch
	a.epoch++
}

// fork gives the blocks the knowledge of a.
//
//go:norace
func (a *actor) fork(blocks []*actor) {
	a.hb.raise(a.slot, a.epoch)
	a.seen.raise(a.slot, a.epoch)
	a.epoch++
	for _, b := range blocks {
		b.replace(a.freeze())
		b.fence()
	}
}

// follow takes over the knowledge of an operation that has ended. All its accesses to memory are over, and count as fenced.
//
//go:norace
func (a *actor) follow(s *stamp) {
	a.join(s)
	a.fenced.joinFrozen(s.hb)
	a.fenced.raise(s.slot, s.hbEpoch)
}

// gather adds to a the knowledge of b at its end.
//
//go:norace
func (a *actor) gather(b *actor) {
	b.fence()
	a.join(b.release())
}
