package sim

import "github.com/colligo-go/colligo/transport"

// notice is one call of an event: of Lost if err is set, of Note otherwise.
type notice struct {
	peer int
	note []byte
	err  *transport.PeerError
}

// post has an event called by a goroutine of the mesh, after the events before it. The goroutine lives while there are any.
func (m *Mesh) post(x notice) {
	if x.err == nil && m.events.Note == nil || x.err != nil && m.events.Lost == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing || m.fail.Load() != nil {
		return
	}
	m.notices = append(m.notices, x)
	if m.serving == nil {
		m.serving = make(chan struct{})
		go m.serve(m.serving)
	}
}

// serve calls events until none is left.
func (m *Mesh) serve(ended chan struct{}) {
	defer close(ended)
	for {
		m.mu.Lock()
		if len(m.notices) == 0 || m.fail.Load() != nil {
			m.notices, m.serving = nil, nil
			m.mu.Unlock()
			return
		}
		x := m.notices[0]
		m.notices = m.notices[1:]
		m.mu.Unlock()
		if x.err != nil {
			m.events.Lost(x.peer, x.err)
		} else {
			m.events.Note(x.peer, x.note)
		}
	}
}
