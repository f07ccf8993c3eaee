package shm

import (
	"encoding/binary"
	"fmt"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/peermem"
)

// A zero-copy frame is a line whose tail holds an address in place of a payload. The receiver copies the payload from there with
// process_vm_readv, and a slot's worth at a time, so that a reduction finds it in the cache. To its caller each part is a frame.
//
// The next long slot is the receiver's, for the parts. The sender offers one such frame at a time on a lane, and waits until it is taken:
//
//  1. The receiver says in the head of its segment that it can read, once it has read its token (package peermem).
//  2. The sender stores address and length in a line, and then the turn.
//  3. The receiver reads part by part. After each it looks whether the turn still stands, and only then believes the bytes.
//  4. The receiver stores the taken count, and the sender's caller may use its memory again.
//  5. A receiver that cannot read, as in memory of a device driver, stores how far it came and the frame's number before the count.
//     Then the sender copies the rest into slots, and offers nothing more on the link.
//  6. A sender that gives up first marks the turn. So bytes that its caller changes afterwards are never taken for the payload.
const (
	maxZeroCopy = 1 << 30
	withdrawn   = 1 << 63 // of a turn
)

var _ transport.ZeroCopier = (*link)(nil)

// offered is a frame that a sender has offered.
type offered struct {
	number uint64 // of the frame, 0 for none
	line   *line
	copies bool // the receiver cannot read it
	off    int  // bytes that have been sent by copies, or need not be
}

// MaxZeroCopy implements transport.ZeroCopier.
func (l *link) MaxZeroCopy() int {
	if !l.readable.Load() {
		if l.ending.Load() != nil || l.out[0].summed || !l.answer.given() {
			return 0
		}
		l.readable.Store(true)
	}
	return maxZeroCopy
}

// SendZeroCopy implements transport.ZeroCopier.
func (l *link) SendZeroCopy(h *transport.Header, p []byte) (bool, error) {
	s := &l.out[h.Lane]
	o := &s.offer
	if o.number != 0 && !o.copies {
		switch taken := s.taken.Load(); {
		case taken < o.number:
		case s.unread.Load() != o.number: // also of a peer that has left since
			*o, s.known = offered{}, taken
			return true, nil
		default:
			o.copies, o.off = true, int(min(s.got.Load(), uint64(len(p))))
		}
	}
	if e := l.ending.Load(); e != nil {
		return false, e.err
	}
	if o.copies {
		return l.sendCopies(s, h, p)
	}
	if o.number != 0 {
		return false, nil
	}
	if len(p) == 0 || len(p) > maxZeroCopy || uint32(len(p)) != h.Len {
		panic(fmt.Sprintf("shm: SendZeroCopy of %d bytes with a header of %d", len(p), h.Len))
	}
	if l.unreadable.Load() {
		o.copies = true
		return l.sendCopies(s, h, p)
	}
	if !s.free(inSender) {
		if ok, err := l.reread(int(h.Lane), inSender); !ok {
			return false, err
		}
	}
	s.offerAt(h, p)
	l.knock(int(h.Lane))
	return false, nil
}

// offerAt offers a frame whose payload stays where it is.
func (s *sender) offerAt(h *transport.Header, p []byte) {
	l := s.lines.at(s.at)
	binary.LittleEndian.PutUint64(l.tail[:], peermem.Address(p))
	l.write(h, inSender)
	s.offer = offered{number: s.sent + 1, line: l}
	s.publish(l, inSender)
}

// sendCopies sends what the receiver could not read by way of the slots.
func (l *link) sendCopies(s *sender, h *transport.Header, p []byte) (bool, error) {
	for o := &s.offer; o.off < len(p); {
		part := p[o.off:]
		part = part[:min(len(part), l.frame)]
		s.copied = *h
		s.copied.Len = uint32(len(part))
		if ok, err := l.Send(&s.copied, part); !ok {
			return false, err
		}
		o.off += len(part)
	}
	s.offer = offered{}
	if !l.unreadable.Swap(true) {
		l.mesh.log.Info("a peer cannot read this rank's memory, which is copied into shared memory from now on", "group", l.mesh.c.Name,
			"rank", l.mesh.c.Rank, "peer", l.peer)
	}
	return true, nil
}

// Withdraw implements transport.ZeroCopier.
func (l *link) Withdraw() {
	for lane := range l.out {
		s := &l.out[lane]
		if o := &s.offer; o.number != 0 && !o.copies {
			o.line.turn.CompareAndSwap(o.number, o.number|withdrawn)
		}
		s.offer = offered{}
	}
}

// remote is what a receiver knows of a frame at hand that lies in the sender's memory.
type remote struct {
	memory  *peermem.Memory // of the sender's process
	at      uint64
	left    int  // bytes from at on; 0 of any other frame
	got     int  // bytes before at
	fetched bool // the part at hand is in the slot
}

// begin takes the address out of a line, and has the header be that of the first part.
func (r *remote) begin(h *transport.Header, at uint64, frame int) {
	r.at, r.left, r.got, r.fetched = at, int(h.Len), 0, false
	h.Len = uint32(min(r.left, frame))
}

// fetch reads the part at hand into dst, or into the slot if dst is nil. It reports false if that cannot be done, and has then given the
// frame up.
func (r *receiver) fetch(dst []byte) ([]byte, bool) {
	m, n := &r.remote, int(r.head.Len)
	own := r.body[r.slot*r.frame:][:n:n]
	switch {
	case m.fetched && dst == nil:
		return own, true
	case m.fetched:
		copy(dst, own)
		return dst, true
	case dst == nil:
		dst, m.fetched = own, true
	}
	l := r.lines.at(r.at)
	read := m.memory.Read(dst, m.at)
	if l.turn.Load() != r.released+1 {
		r.have, m.left = false, 0 // withdrawn: no frame any more
		return nil, false
	}
	if !read {
		r.got.Store(uint64(m.got))
		r.unread.Store(r.released + 1)
		m.left = 0
		r.giveBack()
		return nil, false
	}
	return dst, true
}

// nextPart goes on to the next part of the frame at hand. It reports false if there is none.
func (r *receiver) nextPart() bool {
	m, n := &r.remote, int(r.head.Len)
	if m.left <= n {
		m.left = 0
		return false
	}
	m.at, m.left, m.got, m.fetched = m.at+uint64(n), m.left-n, m.got+n, false
	r.head.Len = uint32(min(m.left, r.frame))
	return true
}
