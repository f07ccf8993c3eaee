package shm

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo/transport"
)

// sender is this rank's end of a ring in a peer's segment.
type sender struct {
	ring
	sent    uint64 // frames sent
	known   uint64 // taken count as last read
	at      int    // sent modulo slots
	summed  bool
	copied  transport.Header // the header with its flag, when summed
	scratch [transport.HeaderSize]byte
	offer   offered
}

// room says whether the next slot is free. The taken count, on a line that the receiver writes, is read only when by the
// last reading there is none.
func (s *sender) room() (bool, error) {
	if s.sent-s.known < uint64(len(s.lines)) {
		return true, nil
	}
	taken := s.taken.Load()
	if s.sent-taken > uint64(len(s.lines)) {
		return false, fmt.Errorf("%w: %d frames taken of %d sent into %d slots", transport.ErrCorrupt, taken, s.sent, len(s.lines))
	}
	s.known = taken
	return s.sent-taken < uint64(len(s.lines)), nil
}

// memory is where a payload of n bytes goes in the next slot.
func (s *sender) memory(n int) []byte {
	if n <= inlineBytes && !s.summed {
		return s.lines[s.at].tail[:n:n]
	}
	n = min(n, s.frame)
	return s.body[s.at*s.frame:][:n:n]
}

// put fills the next slot and publishes it.
func (s *sender) put(h *transport.Header, p []byte) {
	l := &s.lines[s.at]
	if dst := s.memory(len(p)); len(p) > 0 && unsafe.SliceData(dst) != unsafe.SliceData(p) {
		copy(dst, p)
	}
	if s.summed {
		s.copied = *h
		s.copied.Flags |= transport.FlagChecksum
		h = &s.copied
		binary.LittleEndian.PutUint32(l.tail[:], sum(h, p, &s.scratch))
	}
	l.write(h, inSlot)
	s.publish(l)
}

// publish stores the turn of the slot that put or offer has filled.
func (s *sender) publish(l *line) {
	s.sent++
	l.turn.Store(s.sent)
	if s.at++; s.at == len(s.lines) {
		s.at = 0
	}
}
