package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg"
)

// A letter is a message that does not fit into a mailbox. It goes by lines (kernels: a broadcast between two), where devices are linked
// by NVLink and kernels may wait. Two kernels carry it, at the sender and at the receiver, with more blocks than may wait for a peer
// that is behind another operation. So both are launched when both ranks are there:
//
//	receiver  set ready on the sender; take the message of the mailbox that tells what the letter is; launch
//	sender    put that message into the mailbox; wait for ready; make it 0; launch
//
// In a block the sender waits and launches on a stream beside, and the mailbox is served by one kernel for both ways.

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
	out := s
	if b.block.gathers {
		var err error
		if out, err = b.beside(t, s); err != nil {
			return err
		}
	}
	ready := b.heap + cuda.Pointer(b.layout.readyAt(c.Peer))
	return first(b.fill(t, c, 0, s), t.Wait32(out, ready, 1), t.Write32(out, ready, 0),
		b.letter(t, c, kernels.LineRoot, addressOf(c.In), out))
}

// receiveLetter is receive. The letter is launched behind the message that tells of it.
func (b *backend) receiveLetter(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	ready := b.peers[c.Peer].at + cuda.Pointer(b.layout.readyAt(b.rank))
	return first(t.Write32(s, ready, 1), b.empty(t, c, 0, s), b.post(t, s),
		b.letter(t, c, kernels.LineLast, addressOf(c.Out), s))
}

// letter enqueues this rank's half, as the root of a broadcast or its last rank.
func (b *backend) letter(t cuda.Thread, c *pg.Call, end uint32, at cuda.Pointer, s cuda.Stream) error {
	l, a, peer, sends := &b.layout, &b.args.letter, c.Peer, end == kernels.LineRoot
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
	warps := min((bytes+511)/512, l.mailBlocks*kernels.LineWarps)
	grid := cuda.Grid{Blocks: uint32((warps + letterWarps - 1) / letterWarps), Threads: 32 * letterWarps}
	// It is no graph: a send and a receive run at the same time, which two launches of one graph do not.
	return first(b.code.launchOnce(t, b.code.move.broadcastLines, grid, unsafe.Pointer(a), s), b.weigh(t, s, letterCommands))
}
