package gloo

import "slices"

// AnyPeer is the peer of a receive that has no message yet and takes one from whatever rank sends first.
const AnyPeer = -1

// Receive is a receive that was posted. Its memory belongs to the mesh from Post until Release.
type Receive struct {
	slot   uint64
	n      int
	got    int // bytes taken by Body
	peer   int
	kept   []byte // what has come, where it stood in the way of other messages
	remote bool   // the payload lies in the peer's memory
	at     uint64 // where
	last   []byte // read there, with which the payload is whole
	tells  bool   // the peer is to know that its payload was read

	looked bool // somebody has asked for it since the last Relieve
}

// Peer returns the rank that the message comes from, AnyPeer while that is open.
func (r *Receive) Peer() int { return r.peer }

func (r *Receive) fits(n int) error {
	if n != r.n-r.got {
		return &Mismatch{Slot: r.slot, Ours: r.n, Theirs: n}
	}
	return nil
}

// Post tells a peer of a receive of n bytes on a slot. It does not wait; the next Write, Arrived or Flush sends the notice. With AnyPeer the first peer is told that has
// announced, or will announce, a message on the slot.
func (m *Mesh) Post(r *Receive, peer int, slot uint64, n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	*r = Receive{slot: slot, n: n, peer: peer}
	if peer == AnyPeer {
		return m.postAny(r)
	}
	p := m.pairs[peer]
	return m.failed(p, p.post(r))
}

// Flush sends the notices that are queued, as far as the connections take them.
func (m *Mesh) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	for _, p := range m.pairs {
		if p == nil || len(p.out) == 0 {
			continue
		}
		if err := p.flush(); err != nil {
			return m.failed(p, err)
		}
	}
	return nil
}

// postAny gives a receive to the peer whose send came first, or keeps it until one comes.
func (m *Mesh) postAny(r *Receive) error {
	var first *pair
	number := ^uint64(0)
	for _, p := range m.pairs {
		if p == nil || p.slots[r.slot] == nil {
			continue
		}
		if o := p.slots[r.slot].offered; len(o) > 0 && o[0].number < number {
			first, number = p, o[0].number
		}
	}
	if first == nil {
		m.any = append(m.any, r)
		return nil
	}
	return m.failed(first, first.post(r))
}

// serveAny gives a send that a peer has announced to the oldest receive from any on its slot.
func (m *Mesh) serveAny(p *pair, slot uint64) error {
	i := slices.IndexFunc(m.any, func(r *Receive) bool { return r.slot == slot })
	if i < 0 {
		return nil
	}
	r := m.any[i]
	m.any = slices.Delete(m.any, i, i+1)
	return p.post(r)
}

// Arrived returns how many bytes of the payload can be taken now in whole elements, and -1 while its head has not come. For
// bytes that go to a destination it returns all that are missing; Body waits for them. A receive from any looks at all peers.
func (m *Mesh) Arrived(r *Receive, elem int, direct bool) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return -1, m.err
	}
	if r.peer == AnyPeer {
		if err := m.pullAll(); err != nil || r.peer == AnyPeer {
			return -1, err
		}
	}
	p := m.pairs[r.peer]
	n, err := p.arrived(r, elem, direct)
	return n, m.failed(p, err)
}

func (p *pair) arrived(r *Receive, elem int, direct bool) (int, error) {
	if r.whole() || r.last != nil {
		return r.n - r.got, nil
	}
	if p.reading != r && !r.remote {
		if err := p.pull(); err != nil || p.reading != r && !r.remote {
			return -1, err
		}
	}
	r.looked = true
	if left := r.n - r.got; r.remote && direct {
		return left, nil
	} else if r.remote {
		return min(left, partBytes-partBytes%elem), nil
	}
	if p.looked = true; r.kept != nil {
		if _, err := p.keep(); err != nil || !r.whole() {
			return -1, err
		}
	}
	left := r.n - r.got
	if r.kept != nil {
		return left, nil
	}
	if direct || left == 0 {
		return left, nil
	}
	if p.r%align != 0 && r.got == 0 {
		p.w = copy(p.buf, p.buf[p.r:p.w]) // so that elements are aligned
		p.r = 0
	}
	if n := min(p.w-p.r, left); n >= elem {
		return n - n%elem, nil
	}
	if err := p.fill(max(left, headSize+1)); err != nil {
		return -1, err
	}
	if n := min(p.w-p.r, left); n >= elem {
		return n - n%elem, nil
	}
	return -1, nil
}

// Body takes bytes of a payload that Arrived has told of. With a destination they go there, and ok tells whether all of it has
// come; the caller passes the same destination until then. Without one the result is n bytes of the mesh's own memory, valid
// until Release.
func (m *Mesh) Body(r *Receive, dst []byte, n int) (b []byte, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, false, m.err
	}
	p := m.pairs[r.peer]
	if r.remote {
		if b, ok = p.fetch(r, dst, n); r.last == nil {
			return b, ok, nil
		}
	}
	if !p.told(r) {
		return nil, false, nil
	}
	if r.last != nil {
		return r.last, true, nil
	}
	if r.kept != nil {
		b = r.kept[r.got : r.got+n]
		if dst != nil {
			b = dst[:copy(dst, b)]
		}
		return b, true, nil
	}
	if dst == nil {
		b = p.buf[p.r : p.r+n]
		return b, true, nil
	}
	ok, err = p.into(dst)
	return dst, ok, m.failed(p, err)
}

// into takes bytes from the buffer and then from the stream.
func (p *pair) into(dst []byte) (bool, error) {
	for p.landed < len(dst) {
		if p.r < p.w {
			n := copy(dst[p.landed:], p.buf[p.r:p.w])
			p.r, p.landed = p.r+n, p.landed+n
			continue
		}
		p.r, p.w = 0, 0
		n, err := p.read([][]byte{dst[p.landed:], p.buf[:headSize]})
		if n == 0 || err != nil {
			return false, err
		}
		rest := max(0, n-(len(dst)-p.landed))
		p.landed, p.w = p.landed+n-rest, rest
	}
	return true, nil
}

// Release gives up n bytes that Body has returned. After the last the receive is over, which the result tells.
func (m *Mesh) Release(r *Receive, n int, direct bool) (over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pairs[r.peer]
	if r.last != nil && !direct {
		p.part = r.last[:partBytes]
	}
	if p.reading == r && r.kept == nil {
		p.landed = 0
		if !direct {
			p.r += n
		}
	}
	if r.got += n; r.got < r.n {
		return false
	}
	r.last = nil
	if p.reading == r {
		p.reading = nil
	}
	r.kept = nil
	return true
}
