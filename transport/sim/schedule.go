package sim

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// kind says what an event is; at the same time and place, kinds happen in this order.
type kind int

const (
	isFault kind = iota
	isFrame
	isNote
	isCut  // one rank has lost another
	isGone // all ranks have lost one
)

// event is something that happens at a time.
type event struct {
	at       time.Duration
	kind     kind
	src, dst int // global ranks
	lane     int
	index    uint64
	bytes    int

	from, to *Mesh
	ring     *lane                // isFrame
	note     []byte               // isNote
	err      *transport.PeerError // isCut, isGone
	fault    Fault                // isFault
}

// order compares events by time, then by what they are, so that it follows from nothing else. Faults come last: what
// they let through again is a nanosecond later and passes nothing.
func (e *event) order(f *event) int {
	fault := func(e *event) int {
		if e.kind == isFault {
			return 1
		}
		return 0
	}
	group := func(e *event) uint32 {
		if e.from == nil {
			return 0
		}
		return e.from.group.id
	}
	return cmp.Or(cmp.Compare(e.at, f.at), cmp.Compare(fault(e), fault(f)), cmp.Compare(group(e), group(f)), cmp.Compare(e.src, f.src),
		cmp.Compare(e.dst, f.dst), cmp.Compare(e.kind, f.kind), cmp.Compare(e.lane, f.lane), cmp.Compare(e.index, f.index))
}

// queue is a heap of events for container/heap.
type queue []*event

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].order(q[j]) < 0 }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*event)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}

// add schedules an event and has the timer fire for it.
func (n *Net) add(e *event) {
	heap.Push(&n.queue, e)
	if n.queue[0] == e {
		n.arm()
	}
}

// arm sets the timer for the first event.
func (n *Net) arm() {
	d := n.queue[0].at - n.now()
	if n.timer == nil {
		n.timer = time.AfterFunc(d, n.tick)
		return
	}
	n.timer.Reset(d)
}

func (n *Net) tick() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pump()
}

// pump does everything that is due.
func (n *Net) pump() {
	now := n.now()
	for len(n.queue) > 0 && n.queue[0].at <= now {
		e := heap.Pop(&n.queue).(*event)
		n.clock = e.at
		n.happen(e)
	}
	n.clock = now
	if len(n.queue) > 0 {
		n.arm()
	}
}

func (n *Net) happen(e *event) {
	switch {
	case e.kind == isFault:
		n.apply(e.fault)
		return
	case e.kind == isGone:
		n.gone(e)
		return
	case n.holds(e.src, e.dst):
		n.held = append(n.held, e)
		return
	}
	if e.kind == isNote {
		e.from.group.pipe(e.from.rank, e.to.rank).flying--
	}
	if e.from.group.cuts[pair{e.from.rank, e.to.rank}] != nil {
		return
	}
	n.trace(e)
	switch e.kind {
	case isFrame:
		e.ring.visible.Store(e.index + 1)
		e.to.poke()
	case isNote:
		e.to.post(notice{peer: e.from.rank, note: e.note})
	case isCut:
		n.cut(e.from, e.to, e.err)
	}
}

// release schedules what was held and is so no longer. All that is due has been held by then, so nothing passes it.
func (n *Net) release() {
	held, at := n.held, n.clock+time.Nanosecond
	n.held = nil
	for _, e := range held {
		if n.holds(e.src, e.dst) {
			n.held = append(n.held, e)
			continue
		}
		e.at = at
		e.from.last = max(e.from.last, at)
		n.add(e)
	}
}

// send schedules the frame that the sender has put into the slot s of a lane.
func (n *Net) send(l *link, number int, s *slot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m, ring := l.mesh, &l.out.lanes[number]
	f := Frame{Group: m.group.id, Src: m.global, Dst: l.peer.global, Lane: number, Index: ring.sent, Bytes: len(s.data)}
	if where := (spot{pair{f.Src, f.Dst}, number, f.Index}); n.corrupt[where] {
		delete(n.corrupt, where)
		s.spoil(m.checksum, n.hash(f))
		n.settle()
	}
	ring.at = max(ring.at, n.now()+n.delay(f))
	m.last = max(m.last, ring.at)
	ring.sent++
	n.add(&event{at: ring.at, kind: isFrame, src: f.Src, dst: f.Dst, lane: number, index: f.Index, bytes: f.Bytes,
		from: m, to: l.peer, ring: ring})
	if left, ok := n.killAfter[f.Src]; ok {
		if n.killAfter[f.Src] = left - 1; left == 1 {
			delete(n.killAfter, f.Src)
			n.settle()
			n.kill(f.Src)
			n.pump()
		}
	}
}

// notify delivers a note, or schedules it where that is needed or others are on their way.
func (n *Net) notify(m, to *Mesh, note []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := m.group.pipes[pair{m.rank, to.rank}]
	if n.direct.Load() && (p == nil || p.flying == 0) {
		to.post(notice{peer: m.rank, note: note})
		return
	}
	p = m.group.pipe(m.rank, to.rank)
	p.flying++
	f := Frame{Group: m.group.id, Src: m.global, Dst: to.global, Lane: NoteLane, Index: p.notes, Bytes: len(note)}
	p.notes++
	p.noteAt = max(p.noteAt, n.now()+n.delay(f))
	m.last = max(m.last, p.noteAt)
	n.add(&event{at: p.noteAt, kind: isNote, src: f.Src, dst: f.Dst, lane: NoteLane, index: f.Index, bytes: f.Bytes,
		from: m, to: to, note: note})
}
