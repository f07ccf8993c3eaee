package cudasim

// A clock says for each slot (a stream, a block of its kernels, a host) how far it is known. Vectors are shared until
// one of the sharers changes: clocks are copied by freeze only.
type clock struct {
	v     []uint32
	owned bool
}

func (c *clock) at(slot int) uint32 {
	if slot < len(c.v) {
		return c.v[slot]
	}
	return 0
}

// freeze returns a copy; c and the copy will each make their own vector before they change.
func (c *clock) freeze() clock {
	c.owned = false
	return clock{v: c.v}
}

// own makes the vector c's alone, and size long at least.
func (c *clock) own(size int) {
	if c.owned && len(c.v) >= size {
		return
	}
	v := make([]uint32, max(size, len(c.v)))
	copy(v, c.v)
	c.v, c.owned = v, true
}

func (c *clock) raise(slot int, epoch uint32) {
	if c.at(slot) >= epoch {
		return
	}
	c.own(slot + 1)
	c.v[slot] = epoch
}

func (c *clock) join(o clock) {
	i := c.behind(o)
	if i == len(o.v) {
		return
	}
	c.own(len(o.v))
	c.raiseFrom(i, o)
}

// behind returns the first slot of which o knows more, or the number of its slots. Like raiseFrom it does nothing but look at what
// the Sim's lock guards, and Go's race detector, which would take a third of its time for that, is kept from it.
//
//go:norace
func (c *clock) behind(o clock) int {
	mine, its := c.v, o.v
	if len(its) == 0 || len(mine) == len(its) && &mine[0] == &its[0] {
		return len(its)
	}
	for i, e := range its {
		if i >= len(mine) && e > 0 || i < len(mine) && e > mine[i] {
			return i
		}
	}
	return len(its)
}

//go:norace
func (c *clock) raiseFrom(i int, o clock) {
	mine, its := c.v, o.v
	for ; i < len(its); i++ {
		mine[i] = max(mine[i], its[i])
	}
}

// knowledge is what orders an actor after others: hb the accesses whose effect it must see, seen those that are over,
// which is more: a packet shows that its sender had consumed earlier packets, not that its writes have arrived.
type knowledge struct{ hb, seen clock }

func (k *knowledge) join(s *stamp) {
	k.hb.join(s.hb)
	k.hb.raise(s.slot, s.hbEpoch)
	k.seen.join(s.seen)
	k.seen.raise(s.slot, s.seenEpoch)
}

func (k *knowledge) merge(o knowledge) {
	k.hb.join(o.hb)
	k.seen.join(o.seen)
}

func (k *knowledge) freeze() knowledge { return knowledge{k.hb.freeze(), k.seen.freeze()} }

// A stamp is what an actor publishes: its knowledge and how far it has come itself.
type stamp struct {
	hb, seen           clock // frozen
	slot               int
	hbEpoch, seenEpoch uint32
}

// An actor does one thing after another: a stream, a block of a kernel, a host. Its accesses since the last thing it
// published carry its epoch.
type actor struct {
	knowledge
	slot        int
	epoch       uint32
	fenced      clock // hb at the last fence: what a volatile store publishes
	fencedEpoch uint32
	pending     clock // what volatile loads have brought: counts from the next fence
}

// release publishes everything.
func (a *actor) release() *stamp {
	s := &stamp{a.hb.freeze(), a.seen.freeze(), a.slot, a.epoch, a.epoch}
	a.epoch++
	return s
}

// relaxed publishes what a volatile store or a packet does.
func (a *actor) relaxed() *stamp {
	s := &stamp{a.fenced.freeze(), a.seen.freeze(), a.slot, a.fencedEpoch, a.epoch}
	a.epoch++
	return s
}

// observe is join for a volatile load or a packet.
func (a *actor) observe(s *stamp) {
	a.pending.join(s.hb)
	a.pending.raise(s.slot, s.hbEpoch)
	a.seen.join(s.seen)
	a.seen.raise(s.slot, s.seenEpoch)
}

func (a *actor) fence() {
	a.hb.join(a.pending)
	a.pending = clock{}
	a.fenced = a.hb.freeze()
	a.fencedEpoch = a.epoch
	a.epoch++
}

// fork makes the blocks know what a knows now.
func (a *actor) fork(blocks []*actor) {
	a.hb.raise(a.slot, a.epoch)
	a.seen.raise(a.slot, a.epoch)
	a.epoch++
	for _, b := range blocks {
		b.knowledge = a.freeze()
		b.pending = clock{}
		b.fence()
	}
}

// follow is join for what ended with all that it did to memory: it counts as fenced.
func (a *actor) follow(s *stamp) {
	a.join(s)
	a.fenced.join(s.hb)
	a.fenced.raise(s.slot, s.hbEpoch)
}

// gather makes a know what b knows at its end.
func (a *actor) gather(b *actor) {
	b.fence()
	a.join(b.release())
}
