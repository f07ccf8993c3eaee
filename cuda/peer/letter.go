package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// A letter is a message that does not fit into a mailbox. It goes by lines (kernels: a broadcast between two), where devices are linked
// by NVLink and kernels may wait. Two kernels carry it, at the sender and at the receiver, with more blocks than may wait for a peer
// that is behind another operation. So both are launched when both ranks are there:
//
//	receiver  set ready on the sender; take the message of the mailbox that tells what the letter is; launch
//	sender    put that message into the mailbox; wait for ready; make it 0; launch
//
// In a block the sender waits and launches on a stream beside, and the mailbox is served by one kernel for both ways. A block of one letter
// to a peer and one from it is a swap: three kernels on one stream, where the host would enqueue ten commands otherwise.

const (
	leastLetter    = 768 << 10 // bytes; what is not longer may go by the mailbox, which takes as long then
	letterWarps    = 16        // of a block
	letterCommands = 4         // that it enqueues beside its message
)

// isLetter reports whether a message of so many bytes goes as a letter.
func (b *backend) isLetter(bytes int) bool {
	return b.layout.mailBlocks > 0 && bytes > min(mailSlots*b.layout.mailSlot, leastLetter)
}

// sendLetter is send, beside the block's stream where the block's messages are at hand.
func (b *backend) sendLetter(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	if b.block.swaps {
		return b.fill(t, c, 0, s) // what else there is to do is the receive's
	}
	out := s
	if b.block.gathers {
		var err error
		if out, err = b.beside(t, s); err != nil {
			return err
		}
	}
	ready := b.heap + cuda.Pointer(b.layout.readyAt(c.Peer))
	return first(b.fill(t, c, 0, s), t.Wait32(out, ready, ptx.ReadyToReceive), t.Write32(out, ready, 0),
		b.letter(t, c, ptx.LineRoot, addressOf(c.In), out))
}

// receiveLetter is receive. The letter is launched behind the message that tells of it.
func (b *backend) receiveLetter(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	if b.block.swaps {
		return first(b.empty(t, c, 0, s), b.swap(t, &b.block.calls[0], c, s))
	}
	ready := b.peers[c.Peer].at + cuda.Pointer(b.layout.readyAt(b.rank))
	return first(t.Write32(s, ready, ptx.ReadyToReceive), b.empty(t, c, 0, s), b.post(t, s),
		b.letter(t, c, ptx.LineLast, addressOf(c.Out), s))
}

// letter enqueues this rank's half, as the root of a broadcast or its last rank.
func (b *backend) letter(t cuda.Thread, c *pg.Call, end uint32, at cuda.Pointer, s cuda.Stream) error {
	grid := cuda.Grid{Blocks: b.describe(&b.args.letter, c, end, at), Threads: 32 * letterWarps}
	// It is no graph: a send and a receive run at the same time, which two launches of one graph do not.
	return first(b.code.launchOnce(t, b.code.move.broadcastLines, grid, unsafe.Pointer(&b.args.letter), s), b.weigh(t, s, letterCommands))
}

// describe fills in a half, and returns how many blocks carry it.
func (b *backend) describe(a *ptx.LinesArgs, c *pg.Call, end uint32, at cuda.Pointer) uint32 {
	l, peer, sends := &b.layout, c.Peer, end == ptx.LineRoot
	own, other, bytes := uint64(b.heap), uint64(b.peers[peer].at), c.Count*c.DType.Size()
	a.Lines, a.Next = own+uint64(l.letterAt(peer, b.rank)), other+uint64(l.letterAt(b.rank, peer))
	a.Counts, a.Signs = own+uint64(l.letterCounts(b.rank, peer, sends)), own+uint64(l.letterSigns(b.rank, peer, sends))
	a.Told = other + uint64(l.letterSigns(peer, b.rank, true))
	if sends {
		a.Told = own + uint64(l.letterSigns(b.rank, peer, false)) // nobody is before it
	}
	a.In, a.Out, a.Bytes, a.Ends = uint64(at), uint64(at), uint64(bytes), end
	a.Before = uint32(b.place(peer))
	a.After = a.Before
	warps := min((bytes+511)/512, l.mailBlocks*ptx.LineWarps)
	return uint32((warps + letterWarps - 1) / letterWarps)
}

// isSwap reports whether a block's calls, in their order, are a letter to a peer and one from it.
func (b *backend) isSwap(calls []pg.Call) bool {
	if len(calls) != 2 {
		return false
	}
	send, receive := &calls[0], &calls[1]
	return send.Coll == plan.Send && receive.Coll == plan.Recv && send.Peer == receive.Peer &&
		b.isLetter(send.Count*send.DType.Size()) && b.isLetter(receive.Count*receive.DType.Size())
}

// swap sends and receives a letter. What tells of them is at hand.
func (b *backend) swap(t cuda.Thread, send, receive *pg.Call, s cuda.Stream) error {
	a, peer := &b.args.swap, send.Peer
	a.Sent, a.Received = b.args.mail.Messages[0], b.args.mail.Messages[1]
	b.dropMessages()
	a.Ready = uint64(b.heap) + uint64(b.layout.readyAt(peer))
	a.Meets = uint64(b.peers[peer].at) + uint64(b.layout.readyAt(b.rank))
	a.Blocks = b.describe(&a.Out, send, ptx.LineRoot, addressOf(send.In))
	in := b.describe(&a.In, receive, ptx.LineLast, addressOf(receive.Out))
	meet, carry := cuda.Grid{Blocks: 1, Threads: 32}, cuda.Grid{Blocks: a.Blocks + in + 1, Threads: 32 * letterWarps}
	a.Turn = 0
	if err := first(b.code.launchOnce(t, b.code.move.meetLetters, meet, unsafe.Pointer(a), s),
		b.code.launchOnce(t, b.code.move.swapLetters, carry, unsafe.Pointer(a), s)); err != nil {
		return err
	}
	a.Turn = 1
	return b.code.launchOnce(t, b.code.move.swapLetters, carry, unsafe.Pointer(a), s)
}
