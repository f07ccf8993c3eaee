package cudasim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/colligo-go/colligo/cuda"
)

// An Access is one side of a race.
type Access struct {
	Operation string // such as "MemcpyAsync", "kernel reduce_two", "StreamWriteValue32", "HostWrite"
	Process   int
	Device    int // -1 for hosts
	Stream    cuda.Stream
	Block     int // of the kernel, -1 for whole operations
	Write     bool
	Stack     []uintptr // program counters of the call that enqueued the operation
}

// A Race is two accesses to the same bytes, at least one of them a write, that nothing orders.
type Race struct {
	Memory        string // the allocation
	Offset, Bytes int    // the first bytes found, from the start of the allocation
	First, Second Access // in the order in which they happened to run
}

// String describes the race on several lines, with both stacks.
func (r Race) String() string {
	return fmt.Sprintf("race on bytes %d to %d of %s\n%s%s", r.Offset, r.Offset+r.Bytes, r.Memory, r.First.describe(), r.Second.describe())
}

func (a Access) describe() string {
	verb := "read"
	if a.Write {
		verb = "written"
	}
	o := origin{name: a.Operation, process: a.Process, device: a.Device, stream: a.Stream}
	where := o.String()
	if a.Block >= 0 {
		where = fmt.Sprintf("block %d of %s", a.Block, where)
	}
	return fmt.Sprintf("  %s by %s, enqueued at\n%s", verb, where, stack(a.Stack, "    "))
}

const mostRaces = 64 // kept; one is kept for each pair of call sites

type raceSet struct {
	kept []Race
	seen map[string]bool
}

// Races returns the races found so far, at most one for each pair of places in the program.
func (s *Sim) Races() []Race {
	s.lock()
	defer s.unlock()
	return append([]Race(nil), s.races.kept...)
}

func (s *Sim) race(old, now access, oldWrite, nowWrite bool, m *memory, lo, hi int) {
	if len(s.races.kept) >= mostRaces {
		return
	}
	key := fmt.Sprint(old.by.site(), oldWrite, "|", now.by.site(), nowWrite)
	if s.races.seen[key] {
		return
	}
	s.races.seen[key] = true
	s.races.kept = append(s.races.kept, Race{
		Memory: m.String(), Offset: lo, Bytes: hi - lo, First: side(old, oldWrite), Second: side(now, nowWrite),
	})
}

func side(a access, write bool) Access {
	return Access{a.by.name, a.by.process, a.by.device, a.by.stream, int(a.block), write, a.by.pcs}
}

// A touch is one access to a range of one memory, on its way through the shadow.
type touch struct {
	sim      *Sim
	by       *actor
	memory   *memory
	access   access
	write    bool
	fresh    *cell // that a write leaves
	old, new *cell // the last read's replacement
}

// touch checks an access against those before it and remembers it. Writes wake the tasks that watch these bytes. The stamp
// published is the one that a write publishes to the actors that will acquire it, if any.
//
//go:norace
func (s *Sim) touch(w accessor, m *memory, lo, n int, kind accessKind, write bool, published *stamp) {
	if n == 0 {
		return
	}
	epoch := w.actor.epoch
	if published != nil { // publishing has begun the next epoch
		epoch--
	}
	t := &s.touching
	t.begin(w.actor, m, access{w.origin, int32(w.actor.slot), epoch, int32(w.block), kind}, write)
	if !write {
		m.shadow.visit(lo, lo+n, s.reads)
		return
	}
	t.fresh = &cell{write: t.access, stamp: published}
	m.shadow.visit(lo, lo+n, s.writes)
	if m.pages != nil {
		m.pages.soil(lo, lo+n)
	}
	if kind != flag {
		m.forget(lo, lo+n)
	}
	s.moved()
	if kind != copied { // else Sim.copy looks
		s.changes++
	}
	w.origin.wrote()
	s.wake(m, lo, lo+n)
}

//go:norace
func (t *touch) begin(by *actor, m *memory, a access, write bool) {
	t.by, t.memory, t.access, t.write = by, m, a, write
	t.fresh, t.old, t.new = nil, nil, nil
}

//go:norace
func (t *touch) overwrite(c *cell, lo, hi int) *cell {
	if c == nil || c == t.fresh {
		return t.fresh
	}
	if c.write.by != nil && !t.after(&c.write) {
		t.sim.race(c.write, t.access, true, true, t.memory, lo, hi)
	}
	for i := range c.reads {
		if !t.after(&c.reads[i]) {
			t.sim.race(c.reads[i], t.access, false, true, t.memory, lo, hi)
		}
	}
	return t.fresh
}

//go:norace
func (t *touch) read(c *cell, lo, hi int) *cell {
	if c != nil && c == t.old {
		return t.new
	}
	if c == nil {
		t.sim.unwritten(t.access.by, t.memory, lo)
		return &cell{reads: []access{t.access}}
	}
	if c.write.by == nil {
		t.sim.unwritten(t.access.by, t.memory, lo)
	} else if !t.after(&c.write) {
		t.sim.race(c.write, t.access, true, false, t.memory, lo, hi)
	}
	t.old, t.new = c, t.withRead(c)
	return t.new
}

// withRead adds the read and drops the reads that it follows: an access after it is also after them.
//
//go:norace
func (t *touch) withRead(c *cell) *cell {
	if slices.Contains(c.reads, t.access) {
		return c
	}
	var room struct {
		cell
		first [1]access
	}
	n := &room.cell
	n.write, n.stamp, n.reads = c.write, c.stamp, room.first[:0]
	if len(c.reads) > 1 {
		n.reads = make([]access, 0, len(c.reads)+1)
	}
	for _, r := range c.reads {
		known := r.slot == t.access.slot || r.epoch <= t.by.hb.at(int(r.slot))
		if !known || t.access.kind != plain && t.access.kind != r.kind {
			n.reads = append(n.reads, r)
		}
	}
	n.reads = append(n.reads, t.access)
	return n
}

// after reports whether a is ordered before the access, or need not be.
//
//go:norace
func (t *touch) after(a *access) bool {
	slot := int(a.slot)
	if a.slot == t.access.slot || a.kind == flag && t.access.kind == flag {
		return true
	}
	if a.kind == clearing && a.epoch <= t.by.pending.at(slot) {
		return true // the actor that stores now has heard from the block after a fence of the block
	}
	switch {
	case a.kind == source && t.write, a.kind == copied && (t.access.kind == validated || t.access.kind == clearing):
		return a.epoch <= t.by.seen.at(slot)
	case a.kind >= flag && a.kind <= validated && t.access.kind >= flag && t.access.kind <= clearing:
		return a.epoch <= t.by.seen.at(slot)
	}
	return a.epoch <= t.by.hb.at(slot)
}

// stamps calls f for the stamps that the last writes of bytes lo to hi have published. A stamp may come more than once.
//
//go:norace
func (m *memory) stamps(lo, hi int, f func(*stamp)) {
	var last *stamp
	for lo < hi {
		base := lo / pageBytes * pageBytes
		end := min(hi, base+pageBytes)
		p := &m.shadow.pages[lo/pageBytes]
		if len(p.parts) == 0 {
			last = p.whole.tell(f, last)
		}
		for i := p.at(lo - base); i < len(p.parts); i++ {
			last = p.parts[i].c.tell(f, last)
			if p.parts[i].end >= end-base {
				break
			}
		}
		lo = end
	}
}

// tell calls f for the stamp of a cell, if f has not just been called for it. It returns the stamp of the last call.
//
//go:norace
func (c *cell) tell(f func(*stamp), last *stamp) *stamp {
	if c == nil || c.stamp == nil || c.stamp == last {
		return last
	}
	f(c.stamp)
	return c.stamp
}

// unwritten reports the read of memory that no actor has written, if the Config asks for that.
func (s *Sim) unwritten(by *origin, m *memory, at int) {
	if !s.config.Uninitialized || m.host() {
		return
	}
	key := "unwritten " + by.site()
	if s.races.seen[key] {
		return
	}
	s.races.seen[key] = true
	s.fault(strings.TrimSuffix(fmt.Sprintf("%v reads byte %d of %v, which nobody has written\n%s", by, at, m, stack(by.pcs, "    ")), "\n"))
}
