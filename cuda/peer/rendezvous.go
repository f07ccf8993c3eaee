package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// A rendezvous message is a message that does not fit into an eager buffer. It goes by the sentinel protocol (kernels: a broadcast between two), where devices are linked
// by NVLink and kernels may wait. Two kernels carry it, at the sender and at the receiver, with more blocks than may wait for a peer
// that is behind another operation. So both are launched when both ranks are there:
//
//	receiver  set ready on the sender; take the message of the eager buffer that tells what the rendezvous message is; launch
//	sender    put that message into the eager buffer; wait for ready; make it 0; launch
//
// In a block the sender waits and launches on a stream beside, and the eager buffer is served by one kernel for both algorithms. A block of one rendezvous message
// to a peer and one from it is a sendrecv: three kernels on one stream, where the host would enqueue ten commands otherwise.

const (
	leastRendezvous    = 768 << 10 // bytes; what is not longer may go by the eager buffer, which takes as long then
	rendezvousWarps    = 16        // of a block
	rendezvousCommands = 4         // that it enqueues beside its message
)

// isRendezvous reports whether a message of so many bytes goes as a rendezvous message.
func (b *backend) isRendezvous(bytes int) bool {
	return b.layout.rendezvousBlocks > 0 && bytes > min(eagerSlots*b.layout.eagerSlot, leastRendezvous)
}

// sendRendezvous is send, beside the block's stream where the block's messages are at hand.
func (b *backend) sendRendezvous(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	if b.block.sendRecvs {
		return b.fill(t, c, 0, s) // what else there is to do is the receive's
	}
	out := s
	if b.block.gathers {
		var err error
		if out, err = b.beside(t, s); err != nil {
			return err
		}
	}
	ready := b.heap + cuda.Pointer(b.layout.clearToSendAt(c.Peer))
	return first(b.fill(t, c, 0, s), t.Wait32(out, ready, ptx.ClearToSend), t.Write32(out, ready, 0),
		b.launchRendezvous(t, c, ptx.EndRoot, addressOf(c.In), out))
}

// receiveRendezvous is receive. The rendezvous message is launched behind the message that tells of it.
func (b *backend) receiveRendezvous(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	if b.block.sendRecvs {
		return first(b.empty(t, c, 0, s), b.sendRecv(t, &b.block.calls[0], c, s))
	}
	ready := b.peers[c.Peer].at + cuda.Pointer(b.layout.clearToSendAt(b.rank))
	return first(t.Write32(s, ready, ptx.ClearToSend), b.empty(t, c, 0, s), b.post(t, s),
		b.launchRendezvous(t, c, ptx.EndLast, addressOf(c.Out), s))
}

// rendezvous message enqueues this rank's half, as the root of a broadcast or its last rank.
func (b *backend) launchRendezvous(t cuda.Thread, c *pg.Call, end uint32, at cuda.Pointer, s cuda.Stream) error {
	grid := cuda.Grid{Blocks: b.describe(&b.args.rendezvous, c, end, at), Threads: 32 * rendezvousWarps}
	// It is no graph: a send and a receive run at the same time, which two launches of one graph do not.
	return first(b.code.launchOnce(t, b.code.move.broadcastSentinel, grid, unsafe.Pointer(&b.args.rendezvous), s), b.weigh(t, s, rendezvousCommands))
}

// describe fills in a half, and returns how many blocks carry it.
func (b *backend) describe(a *ptx.SentinelArgs, c *pg.Call, end uint32, at cuda.Pointer) uint32 {
	l, peer, sends := &b.layout, c.Peer, end == ptx.EndRoot
	own, other, bytes := uint64(b.heap), uint64(b.peers[peer].at), c.Count*c.DType.Size()
	a.Memory, a.Next = own+uint64(l.rendezvousAt(peer, b.rank)), other+uint64(l.rendezvousAt(b.rank, peer))
	a.Counts, a.Credits = own+uint64(l.rendezvousCounts(b.rank, peer, sends)), own+uint64(l.rendezvousCredits(b.rank, peer, sends))
	a.PrevCredits = other + uint64(l.rendezvousCredits(peer, b.rank, true))
	if sends {
		a.PrevCredits = own + uint64(l.rendezvousCredits(b.rank, peer, false)) // nobody is before it
	}
	a.In, a.Out, a.Bytes, a.Ends = uint64(at), uint64(at), uint64(bytes), end
	a.Before = uint32(b.peerIndex(peer))
	a.After = a.Before
	warps := min((bytes+511)/512, l.rendezvousBlocks*ptx.SentinelWarps)
	return uint32((warps + rendezvousWarps - 1) / rendezvousWarps)
}

// isSendRecv reports whether a block's calls, in their order, are a rendezvous message to a peer and one from it.
func (b *backend) isSendRecv(calls []pg.Call) bool {
	if len(calls) != 2 {
		return false
	}
	send, receive := &calls[0], &calls[1]
	return send.Coll == plan.Send && receive.Coll == plan.Recv && send.Peer == receive.Peer &&
		b.isRendezvous(send.Count*send.DType.Size()) && b.isRendezvous(receive.Count*receive.DType.Size())
}

// sendrecv sends and receives a rendezvous message. What tells of them is at hand.
func (b *backend) sendRecv(t cuda.Thread, send, receive *pg.Call, s cuda.Stream) error {
	a, peer := &b.args.sendRecv, send.Peer
	a.Sent, a.Received = b.args.eager.Messages[0], b.args.eager.Messages[1]
	b.dropMessages()
	a.ClearToSend = uint64(b.heap) + uint64(b.layout.clearToSendAt(peer))
	a.PeerClearToSend = uint64(b.peers[peer].at) + uint64(b.layout.clearToSendAt(b.rank))
	a.Blocks = b.describe(&a.Out, send, ptx.EndRoot, addressOf(send.In))
	in := b.describe(&a.In, receive, ptx.EndLast, addressOf(receive.Out))
	meet, carry := cuda.Grid{Blocks: 1, Threads: 32}, cuda.Grid{Blocks: a.Blocks + in + 1, Threads: 32 * rendezvousWarps}
	a.Second = 0
	if err := first(b.code.launchOnce(t, b.code.move.rendezvous, meet, unsafe.Pointer(a), s),
		b.code.launchOnce(t, b.code.move.sendRecv, carry, unsafe.Pointer(a), s)); err != nil {
		return err
	}
	a.Second = 1
	return b.code.launchOnce(t, b.code.move.sendRecv, carry, unsafe.Pointer(a), s)
}
