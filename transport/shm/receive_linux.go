package shm

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// receiver is this rank's end of a ring in its own segment.
type receiver struct {
	ring
	lane     int
	released uint64 // frames given back
	at       int    // released modulo lines
	slot     int    // the next long slot
	slotted  bool   // the frame at hand has it
	lent     bool   // another goroutine may use the lane
	have     bool   // head is the header of the frame at hand
	verified bool   // its checksum has been compared
	head     transport.Header
	limits   [places]int // of a payload in each place; limits[inSender] is 0 if the memory of the sender cannot be read
	scratch  [transport.HeaderSize]byte
	remote   remote        // of a frame at hand that lies in the sender's memory
	trial    uint8         // the place of a frame at hand whose work is timed, else 0
	began    time.Duration // when that work began, by the thread's time; 0 before it
}

// look takes the next frame's header if its turn has come.
func (r *receiver) look() (bool, error) {
	l := r.lines.at(r.at)
	if turn := l.turn.Load(); turn != r.released+1 {
		return false, r.stale(turn)
	}
	place, err := l.read(&r.head, r.lane, &r.limits)
	if err != nil {
		return false, err
	}
	r.have, r.verified = true, r.head.Flags&transport.FlagChecksum == 0
	r.slotted = place != inLine
	switch {
	case place <= inSlot:
	case place == inSender:
		r.remote.begin(&r.head, binary.LittleEndian.Uint64(l.tail[:]), r.frame)
	default:
		r.trial = place
	}
	return true, nil
}

// came reports whether the next frame's turn has come.
func (r *receiver) came() bool { return r.lines.at(r.at).turn.Load() == r.released+1 }

// await returns when the next frame's turn has come, or after so many looks. It reports whether the turn has come.
func (r *receiver) await(looks int) bool {
	turn, want := &r.lines.at(r.at).turn, r.released+1
	for range looks {
		if turn.Load() == want {
			return true
		}
		pause()
	}
	return false
}

// stale says whether a turn that is not the expected one is that of the slot's previous frame.
func (r *receiver) stale(turn uint64) error {
	before := uint64(0)
	if slots := uint64(r.lines.n); r.released >= slots {
		before = r.released + 1 - slots
	}
	if turn == before || turn == (r.released+1)|withdrawn {
		return nil
	}
	return fmt.Errorf("%w: turn %d in a slot that waits for %d", transport.ErrCorrupt, turn, r.released+1)
}

// payload is the memory of the frame at hand.
func (r *receiver) payload() ([]byte, error) {
	l, n := r.lines.at(r.at), int(r.head.Len)
	summed := r.head.Flags&transport.FlagChecksum != 0
	var p []byte
	switch {
	case r.slotted:
		if r.trial != 0 && r.began == 0 {
			r.began = threadTime()
		}
		p = r.body[r.slot*r.frame:][:n:n]
	case n <= inlineBytes && !summed:
		return l.payload(n), nil
	case n > r.short:
		return nil, fmt.Errorf("%w: %d bytes with a checksum, for which there is no slot", transport.ErrCorrupt, n)
	default:
		p = r.shorts[r.at*r.short:][:n:n]
	}
	if r.verified {
		return p, nil
	}
	want := binary.LittleEndian.Uint32(l.tail[:])
	if got := sum(&r.head, p, &r.scratch); got != want {
		return nil, fmt.Errorf("%w: checksum of frame %d (%d bytes) is %#08x, sent as %#08x",
			transport.ErrCorrupt, r.released+1, n, got, want)
	}
	r.verified = true
	return p, nil
}

// giveBack ends the receiver's use of the slot.
func (r *receiver) giveBack() {
	r.have = false
	if r.slotted {
		if r.trial != 0 {
			r.count()
		}
		if r.slot++; (r.slot+1)*r.frame > len(r.body) {
			r.slot = 0
		}
	}
	r.released++
	r.taken.Store(r.released)
	if r.at++; r.at == r.lines.n {
		r.at = 0
	}
}

// count adds the time for which this core worked on the frame at hand to the counts that the sender reads. It comes before the frame is given
// back. A frame whose payload was not asked for counts nothing.
func (r *receiver) count() {
	if r.began != 0 {
		r.worked[r.trial-inSlotTimed].Add(int64(threadTime() - r.began))
	}
	r.trial, r.began = 0, 0
}
