package sim

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// lane is a ring of slots between one sender and one receiver. The sender owns the slots from visible on, the receiver
// those between taken and visible.
type lane struct {
	sent    uint64 // frames that Send has taken
	seen    uint64 // taken, as the sender saw it last
	at      time.Duration
	slots   []slot
	_       [64]byte      // sender's, receiver's and shared words on cache lines of their own
	visible atomic.Uint64 // frames delivered
	_       [56]byte
	taken   atomic.Uint64 // frames released
	_       [56]byte
}

// slot is the memory of one frame, used again and again.
type slot struct {
	header transport.Header
	data   []byte // payload; its memory is the slot's and only grows
	spoilt spoilt
	bits   uint64 // chooses what is spoilt
	sum    uint32 // of the payload before
}

// spoilt says what a fault did to a frame.
type spoilt uint8

const (
	intact spoilt = iota
	headerSpoilt
	payloadSpoilt
)

// free returns the slot of the next frame to send, nil if there is no credit.
func (r *lane) free(slots int) *slot {
	if r.sent-r.seen >= uint64(slots) {
		r.seen = r.taken.Load()
		if r.sent-r.seen >= uint64(slots) {
			return nil
		}
	}
	if r.slots == nil {
		r.slots = make([]slot, slots)
	}
	return &r.slots[r.sent%uint64(len(r.slots))]
}

// front returns the slot of the next frame to take, nil if none has been delivered.
func (r *lane) front() *slot {
	taken := r.taken.Load()
	if taken == r.visible.Load() {
		return nil
	}
	return &r.slots[taken%uint64(len(r.slots))]
}

// room returns n bytes of the slot's memory, never nil. New memory has the size of a power of two, at most limit.
func (s *slot) room(n, limit int) []byte {
	if cap(s.data) == 0 || cap(s.data) < n {
		s.data = make([]byte, max(min(1<<bits.Len(uint(max(n, 64)-1)), limit), n))
	}
	return s.data[:n]
}

// put makes a frame of the slot. A payload built in its memory stays there.
func (s *slot) put(h *transport.Header, p []byte, limit int) {
	s.header, s.spoilt = *h, intact
	if len(p) == 0 {
		s.data = s.data[:0]
		return
	}
	inPlace := cap(s.data) >= len(p) && &s.data[:1][0] == &p[0]
	s.data = s.room(len(p), limit)
	if !inPlace {
		copy(s.data, p)
	}
}

// spoil flips one bit that x chooses: of the payload if it is guarded and x says so, else of the header.
func (s *slot) spoil(guarded bool, x uint64) {
	s.spoilt, s.bits = headerSpoilt, x
	if guarded && len(s.data) > 0 && x&1 == 1 {
		s.spoilt, s.sum = payloadSpoilt, transport.Checksum(s.data)
		s.data[x>>8%uint64(len(s.data))] ^= 1 << (x >> 1 & 7)
	}
}

// headerError reads the header as it would come off a wire.
func (s *slot) headerError() error {
	var b [transport.HeaderSize]byte
	s.header.Encode(&b)
	b[s.bits>>8%transport.HeaderSize] ^= 1 << (s.bits >> 1 & 7)
	var h transport.Header
	return h.Decode(&b)
}

// payloadError checks the payload as a guarded link does.
func (s *slot) payloadError() error {
	if got := transport.Checksum(s.data); got != s.sum {
		return fmt.Errorf("%w: payload checksum %#08x, computed %#08x", transport.ErrCorrupt, s.sum, got)
	}
	return nil
}
