package gloo

import "fmt"

// slotState is what is pending between this rank and one peer on one slot. Of sends and wanted one is empty, and of posted
// and offered only so many are left that the other side does not know of.
type slotState struct {
	sends   []*Send    // announced, and the first perhaps begun
	wanted  []int      // lengths of the peer's receives that no send has taken
	posted  []*Receive // this rank's receives in their order
	noticed int        // of posted, those whose send the peer has told of
	offered []offer    // the peer's sends that no receive has taken
}

// offer is a peer's send that waits for a receive. Its number tells which peer's came first, for receives from any.
type offer struct {
	n      int
	number uint64
}

// empty reports whether the slot can be forgotten.
func (s *slotState) empty() bool {
	return len(s.sends) == 0 && len(s.wanted) == 0 && len(s.posted) == 0 && len(s.offered) == 0
}

// maxPending bounds what one peer may have announced without an answer.
const maxPending = 1 << 20

// at returns the state of a slot, which it makes if there is none.
func (p *pair) at(slot uint64) *slotState {
	if s := p.slots[slot]; s != nil {
		return s
	}
	var s *slotState
	if n := len(p.spare); n > 0 {
		s, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		s = new(slotState)
	}
	p.slots[slot] = s
	return s
}

// maxSpare bounds the states that are kept to be used again.
const maxSpare = 16

// settle forgets the state of a slot on which nothing is pending.
func (p *pair) settle(slot uint64, s *slotState) {
	if !s.empty() {
		return
	}
	delete(p.slots, slot)
	if len(p.spare) < maxSpare {
		s.noticed = 0
		p.spare = append(p.spare, s)
	}
}

// announced takes the notice of a peer's send.
func (p *pair) announced(h head) error {
	s := p.at(h.slot)
	if s.noticed < len(s.posted) {
		r := s.posted[s.noticed]
		s.noticed++
		return r.fits(h.n)
	}
	if p.pending++; p.pending > maxPending {
		return fmt.Errorf("%w: more than %d messages announced", ErrProtocol, maxPending)
	}
	p.mesh.offers++
	s.offered = append(s.offered, offer{h.n, p.mesh.offers})
	return p.mesh.serveAny(p, h.slot)
}

// asked takes the notice of a peer's receive.
func (p *pair) asked(h head) error {
	s := p.at(h.slot)
	if p.pending++; p.pending > maxPending {
		return fmt.Errorf("%w: more than %d receives announced", ErrProtocol, maxPending)
	}
	s.wanted = append(s.wanted, h.n)
	return nil
}

// post takes a receive into the order of its slot and tells the peer.
func (p *pair) post(r *Receive) error {
	s := p.at(r.slot)
	s.posted = append(s.posted, r)
	r.peer = p.peer
	p.queue(head{opNoticeRecv, r.slot, r.n})
	if len(s.offered) == 0 {
		return nil
	}
	o := s.offered[0]
	s.offered = shift(s.offered)
	s.noticed++
	p.pending--
	return r.fits(o.n)
}

// shift removes the first element and keeps the memory.
func shift[T any](s []T) []T {
	copy(s, s[1:])
	var zero T
	s[len(s)-1] = zero
	return s[:len(s)-1]
}
