package peer

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// words are the flag words of this rank's symmetric heap as the host last saw them, nil if it could not look.
type words struct {
	at int // of the first in the symmetric heap
	b  []byte
}

// get returns the word at an offset in the symmetric heap.
func (w *words) get(at int) uint32 { return binary.LittleEndian.Uint32(w.b[at-w.at:]) }

// readWords copies the words to the host. Only the watchdog calls it. A device of which all queues are full of streams
// that wait may not get to the copy; then there is nothing to see.
func (b *backend) readWords(t cuda.Thread) *words {
	s := b.streams.setup.stream
	if b.blind || t.Copy(b.words.Device, b.heap+cuda.Pointer(b.layout.words), len(b.words.Bytes), s) != nil {
		return nil
	}
	for n, end := 0, time.Now().Add(patience/10); ; n++ {
		done, err := t.StreamDone(s)
		if done && err == nil {
			return &words{b.layout.words, b.words.Bytes}
		}
		if err != nil || time.Now().After(end) {
			b.blind = true // the copy may still come
			return nil
		}
		pause(n)
	}
}

// lockSoon takes b.mu, unless somebody keeps it: who enqueues may wait for a mark as long as the device waits.
func (b *backend) lockSoon() bool { return b.lockWithin(patience / 10) }

func (b *backend) lockWithin(limit time.Duration) bool {
	for n, end := 0, time.Now().Add(limit); !b.mu.TryLock(); n++ {
		if time.Now().After(end) {
			return false
		}
		pause(n)
	}
	return true
}

// settle notes that the messages of a queue are done that had been enqueued at the last remember.
func (b *backend) settle(q queue) {
	for p := range b.eagerPairs {
		m := &b.eagerPairs[p]
		m.settled[q] = m.watched[q]
	}
}

func (b *backend) remember(q queue) {
	for p := range b.eagerPairs {
		b.eagerPairs[p].watched[q] = b.eagerPairs[p].messages(q)
	}
}

// messages counts those of a queue.
func (m *eagerPair) messages(q queue) int {
	switch q {
	case sends:
		return m.sent
	case receives:
		return m.received
	}
	return 0
}

// mismatch compares messages that have arrived with the receives that are to take them.
func (b *backend) mismatch(w *words) error {
	if w == nil || !b.lockSoon() {
		return nil
	}
	defer b.mu.Unlock()
	for p := range b.size {
		m := &b.eagerPairs[p]
		for slot := range eagerSlots {
			_, arrived, _ := b.layout.eagerAt(p, b.rank, slot)
			_, label := b.layout.eagerTags(p, slot)
			code := w.get(arrived)
			if p == b.rank || code < 2 || code >= mostCode {
				continue
			}
			if e := m.of(w.get(label)); e != nil && e.code() != code {
				return fmt.Errorf("rank %d sends %s, this rank receives %d %v elements with tag %d: %w", p, sender(code, w.get(label)),
					e.count, e.dtype, e.tag, colligo.ErrMismatch)
			}
		}
	}
	return nil
}

// of returns the receive that has the number of a label, nil if it is not there yet, or long ago, or if numbers mean
// nothing.
func (m *eagerPair) of(label uint32) *expectation {
	number := int(label >> countBits)
	if number == 0 || m.captured || m.expected == nil {
		return nil
	}
	n, most := m.received-m.received%numbers+number-1, m.received+eagerSlots
	switch {
	case n+numbers <= most:
		n += numbers
	case n > most:
		n -= numbers
	}
	if n < 0 {
		return nil
	}
	if e := &m.expected[n%remembered]; e.number == n && n > m.settled[receives] {
		return e
	}
	return nil
}

// lateInStreams returns the ranks that streams wait for, as far as words tell.
func (b *backend) lateInStreams(q queue, w *words) (late []int) {
	if w == nil || !b.lockSoon() {
		return nil
	}
	defer b.mu.Unlock()
	if q == collectives {
		return b.lateInRing(w)
	}
	for p := range b.size {
		m := &b.eagerPairs[p]
		if m.messages(q) == m.settled[q] {
			continue
		}
		if b.eagerLate(q, p, w) {
			late = append(late, p)
		}
	}
	return late
}

// eagerLate reports whether a peer may be waited for: nothing of it has arrived, or it has emptied no slot, or
// not the one that this rank waits for.
func (b *backend) eagerLate(q queue, p int, w *words) bool {
	full := true
	for slot := range eagerSlots {
		_, arrived, _ := b.layout.eagerAt(p, b.rank, slot)
		_, _, free := b.layout.eagerAt(b.rank, p, slot)
		switch {
		case q == receives && w.get(arrived) != 0:
			return false
		case q == sends && w.get(free) == 0 && slot == b.eagerPairs[p].awaited-1:
			return true
		}
		full = full && w.get(free) == 0
	}
	return q == receives || full
}

// lateInRing returns the rank before this one if a ring waits for it: nothing of it has arrived. Of an exchange in rotation the
// words do not tell.
func (b *backend) lateInRing(w *words) []int {
	if !b.streams.ring.around {
		return nil
	}
	for slot := range ringSlots {
		if _, arrived, _ := b.layout.ringAt(b.rank, slot); w.get(arrived) != 0 {
			return nil
		}
	}
	return []int{(b.rank + b.size - 1) % b.size}
}
