package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	seam "github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// A rendezvous message is one that does not fit into an eager buffer. It goes by the sentinel protocol, as a broadcast between
// two, where devices are linked by NVLink and kernels may wait. Two kernels carry it, at the sender and at the receiver. They
// have more blocks than may wait for a peer that is behind another operation. So both are launched when both ranks are there:
//
//	receiver  set clear-to-send on the sender; take the eager message that tells of the long one; launch
//	sender    send that eager message; wait for clear-to-send; make it 0; launch
//
// In a block the sender waits and launches on a stream beside, and one kernel serves the eager buffer for both directions. A
// block of one rendezvous message to a peer and one from it is a sendrecv. It is three kernels on one stream, where the host
// would enqueue ten commands otherwise.

const (
	leastRendezvous    = 768 << 10 // bytes; a message that is not longer may go by the eager buffer, which takes as long then
	rendezvousWarps    = 16        // of a block
	rendezvousCommands = 4         // that it enqueues beside its message
)

// isRendezvous reports whether a message of so many bytes goes by rendezvous.
func (m *messages) isRendezvous(bytes int) bool {
	return m.layout.RendezvousBlocks > 0 && bytes > min(symheap.EagerSlots*m.layout.EagerSlot, leastRendezvous)
}

// The kernels of rendezvous messages.
var (
	carryRendezvous = moveEntryOf(ptx.BroadcastSentinel)
	meetRendezvous  = moveEntryOf(ptx.Rendezvous)
	carrySendRecv   = moveEntryOf(ptx.SendRecv)
)

// sendRendezvous sends a long message, on a stream beside the block's where the block's messages are launched together.
func (m *messages) sendRendezvous(t cuda.Thread, c *seam.Call, s cuda.Stream) error {
	if m.both {
		return m.fill(t, c, 0, s) // the receive does the rest
	}
	out := s
	if m.gathers {
		var err error
		if out, err = m.order.Beside(t, s); err != nil {
			return err
		}
	}
	clear, d := m.heap.Address(m.layout.ClearToSendAt(c.Peer)), streamorder.On(t)
	d.Do(func() error { return m.fill(t, c, 0, s) })
	d.Wait32(out, clear, ptx.ClearToSend)
	d.Write32(out, clear, 0)
	d.Do(func() error { return m.launchRendezvous(t, c, ptx.EndRoot, devmem.Address(c.In), out) })
	return d.Err
}

// receiveRendezvous receives a long message. It is launched behind the eager message that tells of it.
func (m *messages) receiveRendezvous(t cuda.Thread, c *seam.Call, s cuda.Stream) error {
	d := streamorder.On(t)
	if m.both {
		d.Do(func() error { return m.empty(t, c, 0, s) })
		d.Do(func() error { return m.sendRecv(t, &m.calls[0], c, s) })
		return d.Err
	}
	d.Write32(s, m.heap.PeerAddress(c.Peer, m.layout.ClearToSendAt(m.rank)), ptx.ClearToSend)
	d.Do(func() error { return m.empty(t, c, 0, s) })
	d.Do(func() error { return m.post(t, s) })
	d.Do(func() error { return m.launchRendezvous(t, c, ptx.EndLast, devmem.Address(c.Out), s) })
	return d.Err
}

// launchRendezvous enqueues this rank's half, as the root of a broadcast or its last rank. It is no graph: a send and a receive
// run at the same time, which two launches of one graph do not.
func (m *messages) launchRendezvous(t cuda.Thread, c *seam.Call, end uint32, at cuda.Pointer, s cuda.Stream) error {
	grid := cuda.Grid{Blocks: m.describe(&m.args.rendezvous, c, end, at), Threads: 32 * rendezvousWarps}
	if err := m.code.launchOnce(t, m.code.move(carryRendezvous), grid, unsafe.Pointer(&m.args.rendezvous), s); err != nil {
		return err
	}
	return m.order.Throttle(t, s, rendezvousCommands)
}

// describe fills in a half, and returns how many blocks carry it.
func (m *messages) describe(a *ptx.SentinelArgs, c *seam.Call, end uint32, at cuda.Pointer) uint32 {
	l, peer, sends := m.layout, c.Peer, end == ptx.EndRoot
	own, other, bytes := uint64(m.heap.At), uint64(m.heap.Peer(peer)), c.Count*c.DType.Size()
	a.Memory, a.Next = own+uint64(l.RendezvousAt(peer, m.rank)), other+uint64(l.RendezvousAt(m.rank, peer))
	a.Counts, a.Credits = own+uint64(l.RendezvousCounts(m.rank, peer, sends)), own+uint64(l.RendezvousCredits(m.rank, peer, sends))
	a.PrevCredits = other + uint64(l.RendezvousCredits(peer, m.rank, true))
	if sends {
		a.PrevCredits = own + uint64(l.RendezvousCredits(m.rank, peer, false)) // no rank is before it
	}
	a.In, a.Out, a.Bytes, a.Ends = uint64(at), uint64(at), uint64(bytes), end
	a.Before = uint32(m.peerIndex(peer))
	a.After = a.Before
	warps := min((bytes+511)/512, l.RendezvousBlocks*ptx.SentinelWarps)
	return uint32((warps + rendezvousWarps - 1) / rendezvousWarps)
}

// isSendRecv reports whether a block's calls, in their order, are a rendezvous message to a peer and one from it.
func (m *messages) isSendRecv(calls []seam.Call) bool {
	if len(calls) != 2 {
		return false
	}
	send, receive := &calls[0], &calls[1]
	return send.Coll == plan.Send && receive.Coll == plan.Recv && send.Peer == receive.Peer &&
		m.isRendezvous(send.Count*send.DType.Size()) && m.isRendezvous(receive.Count*receive.DType.Size())
}

// sendRecv sends one rendezvous message and receives another. The eager messages that tell of them are at hand.
func (m *messages) sendRecv(t cuda.Thread, send, receive *seam.Call, s cuda.Stream) error {
	a, peer := &m.args.sendRecv, send.Peer
	a.Sent, a.Received = m.args.eager.Messages[0], m.args.eager.Messages[1]
	m.drop()
	a.ClearToSend = uint64(m.heap.At) + uint64(m.layout.ClearToSendAt(peer))
	a.PeerClearToSend = uint64(m.heap.Peer(peer)) + uint64(m.layout.ClearToSendAt(m.rank))
	a.Blocks = m.describe(&a.Out, send, ptx.EndRoot, devmem.Address(send.In))
	in := m.describe(&a.In, receive, ptx.EndLast, devmem.Address(receive.Out))
	meet, carry := cuda.Grid{Blocks: 1, Threads: 32}, cuda.Grid{Blocks: a.Blocks + in + 1, Threads: 32 * rendezvousWarps}
	a.Second = 0
	if err := m.code.launchOnce(t, m.code.move(meetRendezvous), meet, unsafe.Pointer(a), s); err != nil {
		return err
	}
	if err := m.code.launchOnce(t, m.code.move(carrySendRecv), carry, unsafe.Pointer(a), s); err != nil {
		return err
	}
	a.Second = 1
	return m.code.launchOnce(t, m.code.move(carrySendRecv), carry, unsafe.Pointer(a), s)
}
