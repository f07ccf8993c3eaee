package gloo

import (
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
	links "github.com/colligo-go/colligo/transport/gloo"
)

// Message implements host.Wire. The slot of a send or receive is its tag.
func (w *Wire) Message(m *host.Message) (moved, over bool, err error) {
	if m.Coll == plan.Send {
		return w.send(m)
	}
	return w.receive(m)
}

func (w *Wire) send(m *host.Message) (moved, over bool, err error) {
	s, ok := m.State.(*links.Send)
	if !ok {
		s = new(links.Send)
		m.State = s
		if err := w.mesh.Announce(s, int(m.Peer), links.Slot(0, uint32(m.Tag)), len(m.Bytes)); err != nil {
			return false, false, classify(err)
		}
	}
	over, err = w.mesh.Write(s, m.Bytes)
	return over || !ok, over, classify(err)
}

func (w *Wire) receive(m *host.Message) (moved, over bool, err error) {
	r, ok := m.State.(*links.Receive)
	if !ok {
		r = new(links.Receive)
		m.State = r
		from := int(m.Peer)
		if m.Peer == op.AnyPeer {
			from = links.AnyPeer
		}
		err := w.mesh.Post(r, from, links.Slot(0, uint32(m.Tag)), len(m.Bytes))
		if err == nil {
			err = w.mesh.Flush()
		}
		if err != nil {
			return false, false, classify(err)
		}
	}
	n, err := w.mesh.Arrived(r, 1, true)
	if err != nil || n < 0 {
		return !ok, false, classify(err)
	}
	_, whole, err := w.mesh.Body(r, m.Bytes, n)
	if err != nil || !whole {
		return !ok, false, classify(err)
	}
	w.mesh.Release(r, n, true)
	m.Peer = int32(r.Peer())
	m.Received()
	return true, true, nil
}
