package peer

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
)

// settle notes that the messages of a queue are done that had been enqueued when the watchdog last recorded its event.
func (m *messages) settle(q streamorder.Queue) {
	for i := range m.pairs {
		p := &m.pairs[i]
		p.settled[q] = p.watched[q]
	}
}

// watch notes how many messages of a queue are enqueued while the watchdog records its event.
func (m *messages) watch(q streamorder.Queue) {
	for i := range m.pairs {
		p := &m.pairs[i]
		p.watched[q] = p.messages(q)
	}
}

// messages counts those of a queue.
func (p *eagerPair) messages(q streamorder.Queue) int {
	switch q {
	case streamorder.Sends:
		return p.sent
	case streamorder.Receives:
		return p.received
	}
	return 0
}

// mismatch compares messages that have arrived with the receives that are to take them.
func (m *messages) mismatch(seen *words) error {
	for q := range m.size {
		p := &m.pairs[q]
		for slot := range symheap.EagerSlots {
			_, arrived, _ := m.layout.EagerAt(q, m.rank, slot)
			_, label := m.layout.EagerTags(q, slot)
			code := seen.get(arrived)
			if q == m.rank || code < 2 || code >= mostCode {
				continue
			}
			if e := p.of(seen.get(label)); e != nil && e.code() != code {
				return fmt.Errorf("rank %d sends %s, this rank receives %d %v elements with tag %d: %w", q, sender(code, seen.get(label)),
					e.count, e.dtype, e.tag, colligo.ErrMismatch)
			}
		}
	}
	return nil
}

// of returns the receive that has the number of a label. It returns nil if that receive is not there yet, or was long ago, or
// if numbers mean nothing.
func (p *eagerPair) of(label uint32) *expectation {
	number := int(label >> countBits)
	if number == 0 || p.captured || p.expected == nil {
		return nil
	}
	n, most := p.received-p.received%numbers+number-1, p.received+symheap.EagerSlots
	switch {
	case n+numbers <= most:
		n += numbers
	case n > most:
		n -= numbers
	}
	if n < 0 {
		return nil
	}
	if e := &p.expected[n%remembered]; e.number == n && n > p.settled[streamorder.Receives] {
		return e
	}
	return nil
}

// late returns the ranks that the streams of a queue wait for.
func (m *messages) late(q streamorder.Queue, seen *words) (late []int) {
	for i := range m.size {
		p := &m.pairs[i]
		if p.messages(q) != p.settled[q] && m.peerLate(q, i, seen) {
			late = append(late, i)
		}
	}
	return late
}

// peerLate reports whether this rank may be waiting for a peer. A receive waits if nothing of the peer has arrived. A send waits
// if the peer has emptied no slot, or not the slot that the send needs.
func (m *messages) peerLate(q streamorder.Queue, peer int, seen *words) bool {
	full := true
	for slot := range symheap.EagerSlots {
		_, arrived, _ := m.layout.EagerAt(peer, m.rank, slot)
		_, _, free := m.layout.EagerAt(m.rank, peer, slot)
		switch {
		case q == streamorder.Receives && seen.get(arrived) != 0:
			return false
		case q == streamorder.Sends && seen.get(free) == 0 && slot == m.pairs[peer].awaited-1:
			return true
		}
		full = full && seen.get(free) == 0
	}
	return q == streamorder.Receives || full
}
