package shm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"unsafe"

	"github.com/colligo-go/colligo/transport"
)

// link is both directions between this rank and one peer.
type link struct {
	mesh   *mesh
	peer   int
	frame  int
	out    []sender
	in     []receiver
	door   *door // the peer's
	second *door // that of the lane which the peer may have lent
	ending atomic.Pointer[ending]

	answer     answer      // of the peer, in its segment
	readable   atomic.Bool // the peer has said that it can read this rank's memory
	unreadable atomic.Bool // it could not, in one frame at least
}

// ending is why a link is over.
type ending struct {
	err   error
	drain bool // what has arrived may still be taken
}

var _ transport.Link = (*link)(nil)

// end records the first reason that is final. One that lets frames be drained gives way to one that does not.
func (l *link) end(e *ending) error {
	for {
		old := l.ending.Load()
		if old != nil && (!old.drain || e.drain) {
			return old.err
		}
		if l.ending.CompareAndSwap(old, e) {
			return e.err
		}
	}
}

// broken ends the link because of what the peer has written.
func (l *link) broken(lane int, err error) error {
	return l.end(&ending{err: &transport.PeerError{Peer: l.peer, Err: fmt.Errorf("lane %d: %w", lane, err)}})
}

// Slot implements transport.Link.
func (l *link) Slot(lane, n int) []byte {
	if l.ending.Load() != nil {
		return nil
	}
	s := &l.out[lane]
	if !s.free(inSlot) {
		if ok, _ := l.reread(lane, inSlot); !ok { // the next Send reports an error
			return nil
		}
	}
	s.lent = true
	return s.longSlot(min(n, s.frame))
}

// Send implements transport.Link.
func (l *link) Send(h *transport.Header, p []byte) (bool, error) {
	if e := l.ending.Load(); e != nil {
		return false, e.err
	}
	if len(p) > l.frame || uint32(len(p)) != h.Len {
		panic(fmt.Sprintf("shm: Send of %d bytes with a header of %d; a frame holds %d", len(p), h.Len, l.frame))
	}
	s := &l.out[h.Lane]
	place := s.placeOf(p)
	if !s.free(place) {
		if ok, err := l.reread(int(h.Lane), place); !ok {
			return false, err
		}
	}
	s.put(h, p, place)
	l.knock(int(h.Lane))
	return true, nil
}

// Head implements transport.Link.
func (l *link) Head(lane int) (*transport.Header, error) {
	r := &l.in[lane]
	e := l.ending.Load() // before the ring: what the peer sent before its end is then seen
	if e != nil && !e.drain {
		return nil, e.err
	}
	if r.have {
		return &r.head, nil
	}
	found, err := r.look()
	switch {
	case err != nil:
		return nil, l.broken(lane, err)
	case found && r.lent:
		return &r.head, nil
	case found:
		m := l.mesh
		if m.misses != 0 {
			m.missed, m.misses = nil, 0
		}
		if m.neighbours.frames--; m.neighbours.frames < 0 { // a rank that never waits tells its peers here alone where it is
			m.place()
		}
		return &r.head, nil
	case e != nil:
		return nil, e.err
	}
	if !r.lent && l.mesh.missed != r {
		l.mesh.missed = r
		l.mesh.misses++
	}
	return nil, nil
}

// Body implements transport.Link.
func (l *link) Body(lane int, dst []byte) ([]byte, bool, error) {
	r := &l.in[lane]
	if e := l.ending.Load(); e != nil && (!e.drain || !r.have) {
		return nil, false, e.err
	}
	if !r.have || dst != nil && len(dst) != int(r.head.Len) {
		panic(fmt.Sprintf("shm: Body on lane %d into %d bytes: have frame %t of %d bytes", lane, len(dst), r.have, r.head.Len))
	}
	if r.remote.left > 0 {
		p, ok := r.fetch(dst)
		if !ok {
			l.knock(lane) // it is to be sent by way of the slots, or was withdrawn
		}
		return p, ok, nil
	}
	p, err := r.payload()
	if err != nil {
		return nil, false, l.broken(lane, err)
	}
	if dst == nil {
		return p, true, nil
	}
	copy(dst, p)
	return dst, true, nil
}

// Release implements transport.Link.
func (l *link) Release(lane int) {
	r := &l.in[lane]
	if e := l.ending.Load(); e != nil && !e.drain || !r.have {
		return
	}
	if r.remote.left == 0 || !r.nextPart() {
		r.giveBack()
		l.knock(lane)
	}
}

// knock wakes who waits for a frame of a lane.
func (l *link) knock(lane int) {
	l.door.knock()
	if lane == lentLane {
		l.second.knock()
	}
}

// MaxFrame implements transport.Link.
func (l *link) MaxFrame() int { return l.frame }

// sender is this rank's end of a ring in a peer's segment.
type sender struct {
	ring
	sent    uint64   // frames sent
	known   uint64   // taken count as last read
	at      int      // sent modulo lines
	slot    int      // the next long slot
	users   []uint64 // by long slot, the frame that had it last
	lent    bool     // the caller may have built a payload in the next long slot
	summed  bool
	copied  transport.Header // the header with its flag, when summed
	scratch [transport.HeaderSize]byte
	offer   offered
	filling *filling // apart, for small frames need the rest in as few lines of the cache as can be
}

// free reports whether the next line is free by the last reading of the taken count. If the payload needs a long slot, the next one has to
// be free, too. The receiver writes the cache line of that count. So the count is read again only where free reports false.
func (s *sender) free(place uint8) bool {
	return s.sent-s.known < uint64(s.lines.n) && (place == inLine || s.users[s.slot] <= s.known)
}

// reread reads the taken count of a lane, and reports what free does. A count that is impossible ends the link.
func (l *link) reread(lane int, place uint8) (bool, error) {
	s := &l.out[lane]
	taken := s.taken.Load()
	if s.sent-taken > uint64(s.lines.n) {
		return false, l.broken(lane, fmt.Errorf("%w: %d frames taken of %d sent into %d slots", transport.ErrCorrupt, taken, s.sent, s.lines.n))
	}
	s.known = taken
	return s.free(place), nil
}

// inTail reports whether a payload of n bytes fits into the tail of a line.
func (s *sender) inTail(n int) bool { return n <= inlineBytes && !s.summed }

// longSlot is n bytes of the next long slot.
func (s *sender) longSlot(n int) []byte { return s.body[s.slot*s.frame:][:n:n] }

// placeOf returns where a payload goes. It takes a long slot if line and short slot cannot hold it, or if it was built in the long one.
func (s *sender) placeOf(p []byte) uint8 {
	if (s.inTail(len(p)) || len(p) <= s.short) && !s.built(p) {
		return inLine
	}
	return inSlot
}

// built reports whether a payload was built in the next long slot.
func (s *sender) built(p []byte) bool {
	return s.lent && unsafe.SliceData(p) == unsafe.SliceData(s.longSlot(0))
}

// put fills the next line, and the slot of the payload, and publishes them.
func (s *sender) put(h *transport.Header, p []byte, place uint8) {
	l := s.lines.at(s.at)
	switch {
	case place == inLine && s.inTail(len(p)):
		copy(l.payload(len(p)), p)
	case place == inLine:
		copy(s.shorts[s.at*s.short:][:len(p)], p)
	case !s.built(p):
		place = s.fill(p)
	}
	if s.summed {
		h = s.sum(l, h, p)
	}
	l.write(h, place)
	s.publish(l, place)
}

// fill copies a payload into the next long slot, and returns its place.
func (s *sender) fill(p []byte) (place uint8) {
	dst := s.longSlot(len(p))
	if len(p) < fillBytes {
		copy(dst, p)
		return inSlot
	}
	return s.filling.copy(dst, p, s.sent+1, s.known)
}

// sum puts the checksum of a frame into its line, and returns the header that tells of it.
func (s *sender) sum(l *line, h *transport.Header, p []byte) *transport.Header {
	s.copied = *h
	s.copied.Flags |= transport.FlagChecksum
	binary.LittleEndian.PutUint32(l.tail[:], sum(&s.copied, p, &s.scratch))
	return &s.copied
}

// publish stores the turn of the line that put or offerAt has filled, and goes on to the next.
func (s *sender) publish(l *line, place uint8) {
	s.sent++
	if place != inLine {
		s.lent = false
		s.users[s.slot] = s.sent
		if s.slot++; s.slot == len(s.users) {
			s.slot = 0
		}
	}
	l.turn.Store(s.sent)
	if s.at++; s.at == s.lines.n {
		s.at = 0
	}
}

// inlineBytes is what a line has room for beside the header. A longer payload lies on another page.
const inlineBytes = lineSize - 56

// line is the head of a slot as it lies in shared memory. A message of up to 8 bytes is all in the first of its two cache lines.
type line struct {
	turn        atomic.Uint64 // number of the frame, counted from 1; stored last
	seq         uint64
	count       uint64
	total       uint64
	group       uint32
	root        int32
	coll        uint8
	dtype       uint8
	op          uint8
	place       uint8 // where the payload is
	lane, flags uint16
	step        uint32
	length      uint32            // bytes of the payload; the receiver reads it once
	tail        [inlineBytes]byte // a short payload, the checksum, or the payload's address
}

// payload returns the memory of a payload of n bytes in the tail. Up to 8 bytes lie in the first cache line, and 9 to 64 bytes in the second.
// Longer payloads lie in both.
func (l *line) payload(n int) []byte {
	const second = lineSize - cacheLine
	if from := len(l.tail) - second; n > from && n <= second {
		return l.tail[from:][:n:n]
	}
	return l.tail[:n:n]
}

// lines finds the lines of one ring in a segment's head, where each lies a row behind the one before.
type lines struct {
	memory []byte // from the first to the last
	row, n int
}

// at returns line i, from 0 to n-1. Each side counts its lines itself. So no index comes from shared memory, and there is no check.
func (l *lines) at(i int) *line {
	return (*line)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(l.memory)), i*l.row))
}

// Places of a payload.
const (
	inLine      = iota // the tail, or the line's short slot
	inSlot             // the next long slot
	inSender           // the sender's memory, at the address in the tail
	inSlotTimed        // the next long slot; the receiver times its work
	inSlotOther        // so, too, and the sender has copied in the other way; see filling
	places
)

// write fills in all but turn and tail.
func (l *line) write(h *transport.Header, place uint8) {
	l.seq, l.count, l.total = h.Call.Seq, h.Call.Count, h.Total
	l.group, l.root = h.Call.Group, h.Call.Root
	l.coll, l.dtype, l.op, l.place = h.Call.Coll, h.Call.DType, h.Call.Op, place
	l.lane, l.flags, l.step, l.length = h.Lane, h.Flags, h.Step, h.Len
}

// read copies the header out of shared memory and compares the copy with what the ring of this lane can carry. Limits are the most bytes of
// a payload in each place.
func (l *line) read(h *transport.Header, lane int, limits *[places]int) (place uint8, err error) {
	h.Call.Seq, h.Call.Count, h.Total = l.seq, l.count, l.total
	h.Call.Group, h.Call.Root = l.group, l.root
	h.Call.Coll, h.Call.DType, h.Call.Op = l.coll, l.dtype, l.op
	h.Lane, h.Flags, h.Step = l.lane, l.flags, l.step
	h.Len = atomic.LoadUint32(&l.length)
	if place = l.place; place >= places || uint64(h.Len) > uint64(limits[place]) || int(h.Lane) != lane {
		return 0, malformed(h, place, lane, limits)
	}
	return place, nil
}

// malformed is the error of a line that cannot be from a sender of this package.
func malformed(h *transport.Header, place uint8, lane int, limits *[places]int) error {
	most := 0
	if place < places {
		most = limits[place]
	}
	return fmt.Errorf("%w: %d bytes for lane %d in place %d, where %d fit, on lane %d", transport.ErrCorrupt, h.Len, h.Lane, place, most, lane)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the CRC-32C of an encoded header and a payload. The scratch keeps it from allocating.
func sum(h *transport.Header, p []byte, scratch *[transport.HeaderSize]byte) uint32 {
	h.Encode(scratch)
	return crc32.Update(binary.LittleEndian.Uint32(scratch[60:]), castagnoli, p)
}
