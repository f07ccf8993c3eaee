package gloo

// Send is a message on its way to a peer. Its memory belongs to the mesh from Announce until Write has taken all of it.
type Send struct {
	slot     uint64
	n, sent  int
	peer     int
	begun    bool
	zeroCopy bool // the peer is reading it
	took     int  // bytes that the peer has read
}

// Done reports whether the whole payload has been written.
func (s *Send) Done() bool { return s.begun && s.sent == s.n }

// Announce tells a peer of a message of n bytes on a slot. It does not wait; the next Write, Arrived or Flush sends the notice.
func (m *Mesh) Announce(s *Send, peer int, slot uint64, n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	*s = Send{slot: slot, n: n, peer: peer}
	p := m.pairs[peer]
	at := p.at(slot)
	at.sends = append(at.sends, s)
	p.queue(head{opNoticeSend, slot, n})
	return nil
}

// Write writes the next bytes of a message's payload. It returns false if they have not been taken whole. The caller then
// offers the same bytes again; nothing is written before the peer has posted its receive.
func (m *Mesh) Write(s *Send, b []byte) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return false, m.err
	}
	p := m.pairs[s.peer]
	ok, err := p.write(s, b)
	return ok, m.failed(p, err)
}

func (p *pair) write(s *Send, b []byte) (bool, error) {
	if !s.begun {
		if ok, err := p.begin(s, b); !ok {
			return false, err
		}
	}
	if s.zeroCopy {
		if err := p.pull(); s.zeroCopy || err != nil && p.ended == nil { // a peer may take the last payload and leave
			return false, err
		}
	}
	if s.took > 0 && s.took == s.n {
		return true, nil
	}
	if p.offered(s.slot) == s { // the peer could not read the rest
		if p.writing != nil {
			return false, p.pull()
		}
		p.writing = s
		p.withdraw(s)
		p.out = head{opPayload, s.slot, s.n - s.took}.append(p.out)
	}
	b = b[s.took:]
	for {
		n, err := p.push(b[p.partial:])
		p.partial += n
		if p.partial == len(b) && len(p.out) == 0 {
			break
		}
		if n == 0 || err != nil {
			return false, err
		}
	}
	s.sent += len(b)
	if p.partial = 0; s.sent < s.n {
		return true, nil
	}
	p.writing = nil
	p.out, p.later = append(p.out, p.later...), p.later[:0]
	return true, p.flush()
}

// begin puts the head of a payload into the queue. The connection and the slot must be free, and the peer must have posted a receive.
func (p *pair) begin(s *Send, b []byte) (bool, error) {
	at := p.slots[s.slot]
	if at.sends[0] != s || p.writing != nil || p.offered(s.slot) != nil {
		return false, p.pull()
	}
	if len(at.wanted) == 0 {
		if err := p.takeAll(); err != nil {
			return false, err
		}
		if len(at.wanted) == 0 {
			return false, p.flush()
		}
	}
	if n := at.wanted[0]; n != s.n {
		_ = p.flush() // the peer, too, is to see both lengths; what comes of it changes nothing
		return false, &Mismatch{Slot: s.slot, Ours: s.n, Theirs: n, Sends: true}
	}
	at.wanted, at.sends = shift(at.wanted), shift(at.sends)
	p.pending--
	p.settle(s.slot, at)
	s.begun = true
	if p.zeroCopied(s, b) {
		p.sendZeroCopy(s, b)
		return true, nil
	}
	p.writing = s
	p.out = head{opPayload, s.slot, s.n}.append(p.out)
	return true, nil
}
