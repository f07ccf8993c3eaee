package gloo

// Relieve makes way for messages that wait behind a payload for which nobody asks, because its receive was posted ahead of its turn.
// It takes such payloads into memory of their own, at most as much as receives were posted for. It reports whether anything moved.
// Wait does this for its own mesh.
//
// Without it jobs with PyTorch can stand still. A rank of PyTorch runs two collectives at a time, one in Go may run more. Messages of a
// third one, sent early, would then keep back the first two, and a rank of PyTorch never begins the third.
func (m *Mesh) Relieve() (moved bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return false
	}
	for _, p := range m.pairs {
		if p == nil {
			continue
		}
		if moved = p.relieve() || moved; p.reading == nil {
			continue
		}
		looked := p.looked
		if p.looked = false; looked || p.landed > 0 || p.reading.got > 0 {
			continue
		}
		more, err := p.keep()
		if moved = moved || more; m.failed(p, err) != nil {
			return true // the next call returns the error
		}
	}
	return moved
}

// keep takes what has come of the payload that is next in the stream.
func (p *pair) keep() (moved bool, err error) {
	r := p.reading
	if r.kept == nil {
		r.kept = make([]byte, 0, r.n)
	}
	for !r.whole() {
		n := copy(r.kept[len(r.kept):r.n], p.buf[p.r:p.w])
		if p.r += n; n == 0 {
			p.r, p.w = 0, 0
			if n, err = p.read([][]byte{r.kept[len(r.kept):r.n]}); n == 0 || err != nil {
				return moved, err
			}
		}
		r.kept, moved = r.kept[:len(r.kept)+n], true
	}
	p.reading = nil
	return true, nil
}

// whole reports whether the payload was kept, and has come to its end.
func (r *Receive) whole() bool { return r.kept != nil && len(r.kept) == r.n }
