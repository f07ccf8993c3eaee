package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// maxUnexpected bounds the bytes of messages that came before their receive was posted and had to make way for others of the
// same peer. Beyond it a message waits in its lane and holds up the messages behind it.
const maxUnexpected = 64 << 20

// arrived is a message without a receive.
type arrived struct {
	peer int
	call transport.Call
	data []byte
	off  int
}

// unexpected is the unexpected queue: messages without a receive in the order of their coming.
type unexpected struct {
	bytes    int
	messages []*arrived
}

// take gives a receive the first complete message of the queue that has its tag.
func (u *unexpected) take(m *Message) (bool, error) {
	for i, a := range u.messages {
		if a.off < len(a.data) || m.Peer != op.AnyPeer && int(m.Peer) != a.peer || a.call.Root != m.Tag {
			continue
		}
		if err := m.fits(a.peer, a.call); err != nil {
			return false, err
		}
		if len(a.data) != len(m.Bytes) {
			return false, ofPeer(a.peer, fmt.Errorf("%w: a message of %d elements has %d bytes", transport.ErrCorrupt, m.Count, len(a.data)))
		}
		copy(m.Bytes, a.data)
		m.Received()
		m.Peer = int32(a.peer)
		u.bytes -= len(a.data)
		u.messages = append(u.messages[:i], u.messages[i+1:]...)
		return true, nil
	}
	return false, nil
}

// Unexpected says with which tags messages have come from a peer that no receive has asked for. Only the goroutine that runs
// the progress engine calls it.
func (b *Backend) Unexpected(peer, most int) []string {
	var said []string
	for _, a := range b.unexpected.messages {
		one := fmt.Sprintf("a message of rank %d with tag %d has come, which nothing receives", a.peer, a.call.Root)
		if a.off == len(a.data) && (peer == op.AnyPeer || peer == a.peer) && len(said) < most && !slices.Contains(said, one) {
			said = append(said, one)
		}
	}
	return said
}

// keepUnexpected moves messages out of the way of receives that wait for others behind them.
func (b *Backend) keepUnexpected() bool {
	moved := false
	for _, m := range b.messages {
		if m.Coll == plan.Recv && !m.matched {
			moved = b.keepFor(m) || moved
		}
	}
	return moved
}

// keepFor does so for the lanes of every peer that a receive may be waiting for.
func (b *Backend) keepFor(m *Message) bool {
	moved := false
	first, last := b.peers(m)
	for peer := first; peer <= last; peer++ {
		if peer == b.Rank {
			continue
		}
		kept, err := b.keep(peer)
		if err != nil {
			b.broken(m.Op, ofPeer(peer, err))
		}
		moved = moved || kept
	}
	return moved
}

// keep takes what has arrived of the unexpected message at the head of a peer's lane.
func (b *Backend) keep(peer int) (bool, error) {
	a, ok := b.taken[peer].(*arrived)
	if !ok {
		if b.taken[peer] != nil {
			return false, nil
		}
		h, err := b.links[peer].Head(p2pLane)
		if h == nil || err != nil || b.unexpected.bytes+int(min(h.Total, maxUnexpected+1)) > maxUnexpected {
			return false, nil // an error is for the receive that waits for the peer
		}
		a = &arrived{peer: peer, call: h.Call, data: make([]byte, h.Total)}
		b.unexpected.bytes += len(a.data)
		b.unexpected.messages = append(b.unexpected.messages, a)
		b.taken[peer] = a
	}
	moved, err := b.fill(peer, a.data, &a.off)
	if errors.Is(Classify(err), colligo.ErrPeerLost) { // the rest will not come: the receives find the link's error
		b.taken[peer] = nil
		return true, nil
	}
	if moved && a.off == len(a.data) {
		b.taken[peer] = nil
	}
	return moved, err
}
