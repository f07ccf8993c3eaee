package host

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// Sends and receives take the last lane of a mesh. Collectives begin with the first, whose lines a new group touches in any case.
const p2pLane = Lanes - 1

// Message is a send or receive that is pending.
type Message struct {
	*op.Op
	Bytes   []byte // of the tensor, or a copy
	State   any    // of a Wire other than frames
	off     int    // bytes that have moved
	matched bool   // a receive has a message
}

// post takes over a send or receive.
func (b *Backend) post(o *op.Op) {
	var m *Message
	if n := len(b.spares); n > 0 {
		m, b.spares = b.spares[n-1], b.spares[:n-1]
	} else {
		m = new(Message)
	}
	*m = Message{Op: o}
	b.messages = append(b.messages, m)
}

// mostSpares bounds the messages that are kept to be used again.
const mostSpares = 64

// endMessage completes a send or receive.
func (b *Backend) endMessage(m *Message, err error) {
	o := m.Op
	if *m = (Message{}); len(b.spares) < mostSpares {
		b.spares = append(b.spares, m)
	}
	b.end(o, nil, err)
}

// advanceMessages moves every send and receive that can move.
func (b *Backend) advanceMessages() bool {
	if len(b.messages) == 0 {
		return false
	}
	clear(b.busy)
	moved := false
	for i := 0; i < len(b.messages); {
		m := b.messages[i]
		if !m.Begun {
			m.Begun = true
			b.Group.Begin(m.Op)
			m.Bytes = m.Message()
		}
		step, over, err := b.advanceOne(m)
		moved = moved || step
		if err != nil && b.broken(m.Op, err) {
			return true
		}
		if !over {
			i++
			continue
		}
		b.messages = append(b.messages[:i], b.messages[i+1:]...)
		b.endMessage(m, nil)
	}
	return b.wire.Clear() || moved
}

// advanceOne moves a send or receive: over the wire, or within this rank if that sends to itself.
func (b *Backend) advanceOne(m *Message) (moved, over bool, err error) {
	r := m.Rare()
	if r.OtherEnd == nil {
		return b.wire.Message(m)
	}
	if m.Coll == plan.Recv { // the other end is pending with it, for both are of one block
		m.TakeOwn()
	}
	over = m.Coll == plan.Recv || r.Taken
	return over, over, nil
}

func (b *Backend) advanceMessage(m *Message) (moved, over bool, err error) {
	if m.Coll == plan.Send {
		return b.advanceSend(m)
	}
	return b.advanceReceive(m)
}

// advanceSend moves a send if no earlier one to the same peer is still going on.
func (b *Backend) advanceSend(m *Message) (moved, over bool, err error) {
	peer := int(m.Peer)
	if b.busy[peer] {
		return false, false, nil
	}
	l, h := b.links[peer], &b.head
	for {
		p := m.Bytes[m.off:]
		p = p[:min(len(p), l.MaxFrame())]
		*h = transport.Header{Call: transport.Call{Group: b.ID, Coll: uint8(plan.Send), DType: uint8(m.DType),
			Count: uint64(m.Count), Root: m.Tag}, Lane: p2pLane, Len: uint32(len(p)), Total: uint64(len(m.Bytes))}
		ok, err := l.Send(h, p)
		if err != nil || !ok {
			b.busy[peer] = true
			return moved, false, ofPeer(peer, err)
		}
		moved = true
		if m.off += len(p); m.off == len(m.Bytes) {
			return true, true, nil
		}
	}
}

// ofPeer says of which peer an error is.
func ofPeer(peer int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("peer %d: %w", peer, err)
}

// advanceReceive finds a message for a receive, and moves one that has it.
func (b *Backend) advanceReceive(m *Message) (moved, over bool, err error) {
	if !m.matched {
		if ok, err := b.unexpected.take(m); ok || err != nil {
			return ok, ok, err
		}
		if comes, err := b.match(m); err != nil || !m.matched {
			return comes, false, err
		}
	}
	peer := int(m.Peer)
	moved, err = b.fill(peer, m.Bytes, &m.off)
	if over = err == nil && m.off == len(m.Bytes) && moved; over {
		m.Received()
		b.taken[peer] = nil
	}
	return moved, over, ofPeer(peer, err)
}

// peers returns the first and the last peer that a receive may have its message from.
func (b *Backend) peers(m *Message) (first, last int) {
	if m.Peer == op.AnyPeer {
		return 0, b.Size - 1
	}
	return int(m.Peer), int(m.Peer)
}

// match gives a receive the message at the head of a peer's lane if the tag fits. It leaves the message to an earlier receive that it belongs
// to. That receive has looked in vain, for the message came just after. Match then reports that something moves, so that all receives
// look again.
func (b *Backend) match(m *Message) (moves bool, err error) {
	gone := 0
	first, last := b.peers(m)
	for peer := first; peer <= last; peer++ {
		if peer == b.Rank || b.taken[peer] != nil {
			continue
		}
		h, err := b.links[peer].Head(p2pLane)
		if err != nil {
			if gone++; gone < b.Size-1 && m.Peer == op.AnyPeer {
				continue // another may send
			}
			return moves, ofPeer(peer, err)
		}
		if h == nil || h.Call.Root != m.Tag {
			continue
		}
		if b.waiting(peer, m.Tag) != m {
			moves = true
			continue
		}
		if err := m.fits(peer, h.Call); err != nil {
			return moves, err
		}
		m.matched, m.Peer, b.taken[peer] = true, int32(peer), m
		return true, nil
	}
	return moves, nil
}

// waiting returns the receive that was called first of those that a message of a peer with a tag belongs to.
func (b *Backend) waiting(peer int, tag int32) *Message {
	for _, m := range b.messages {
		if m.Coll == plan.Recv && !m.matched && m.Tag == tag && m.Rare().OtherEnd == nil && (m.Peer == op.AnyPeer || int(m.Peer) == peer) {
			return m
		}
	}
	return nil
}

// fits compares a message with the receive that has its tag.
func (m *Message) fits(peer int, c transport.Call) error {
	if c.DType == uint8(m.DType) && c.Count == uint64(m.Count) {
		return nil
	}
	return diagnose.WithClass(fmt.Errorf("rank %d sends %d %v elements with tag %d, this rank receives %d %v elements", peer, c.Count,
		colligo.DType(c.DType), m.Tag, m.Count, m.DType), colligo.ErrMismatch)
}

// fill takes the frames of a message that have arrived.
func (b *Backend) fill(peer int, dst []byte, off *int) (moved bool, err error) {
	l := b.links[peer]
	for {
		h, err := l.Head(p2pLane)
		if err != nil || h == nil {
			return moved, err
		}
		n := int(h.Len)
		if h.Total != uint64(len(dst)) || n > len(dst)-*off || n == 0 && len(dst) > 0 {
			return moved, fmt.Errorf("%w: %d bytes at offset %d of a message of %d bytes", transport.ErrCorrupt, n, *off, len(dst))
		}
		if _, ok, err := l.Body(p2pLane, dst[*off:*off+n]); err != nil || !ok {
			return moved, err
		}
		l.Release(p2pLane)
		moved = true
		if *off += n; *off == len(dst) {
			return true, nil
		}
	}
}
