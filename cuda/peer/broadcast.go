package peer

import (
	"context"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// broadcast sends all bytes to each peer, or, of large tensors, hands rows, lines or tiles on from rank to rank, so that none sends
// them more than once. A hop costs least by rows, but a sixteenth of what they carry is flags, and most by tiles.
func (b *backend) broadcast(ctx context.Context, t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	tensor := c.Out
	if b.rank == c.Root {
		tensor = c.In
	}
	bytes, at := c.Count*c.DType.Size(), addressOf(tensor)
	if b.size == 1 || bytes == 0 {
		return nil
	}
	w := b.window(at, bytes)
	choice := b.pickFor(plan.Broadcast, bytes, w, at)
	switch choice.Way = b.fittingChain(&choice, bytes); choice.Way {
	case Rows:
		return b.rowChain(t, c.Root, tensor, &choice, s)
	case Lines:
		return b.lineChain(t, c.Root, tensor, &choice, s)
	case Follow:
		return b.broadcastFollow(ctx, t, c.Root, tensor, &choice, s)
	case Direct:
		return b.chain(t, c.Root, tensor, &choice, w, s)
	case Chain:
		return b.chain(t, c.Root, tensor, &choice, nil, s)
	}
	if choice.Way == Packets && bytes <= b.layout.packetSlot/2 {
		a := &b.args.broadcast
		a.In, a.Out, a.Bytes, a.Root = uint64(at), uint64(at), uint64(bytes), uint32(b.place(c.Root))
		return b.code.launch(t, b.code.move.broadcastPackets, choice.threadGrid(bytes), unsafe.Pointer(a), s)
	}
	clear(b.args.exchange.SendBytes[:])
	clear(b.args.exchange.RecvBytes[:])
	if b.rank != c.Root {
		b.receives(c.Root, at, bytes)
		return b.launchExchange(t, &move{coll: plan.Broadcast, longest: bytes}, s)
	}
	for q := range b.size {
		if q != c.Root {
			b.sends(q, at, bytes)
		}
	}
	return b.launchExchange(t, &move{coll: plan.Broadcast, longest: bytes}, s)
}

// chain hands a tensor on from the root to the rank after it, and so on: from output to output if w is its window.
func (b *backend) chain(t cuda.Thread, root int, x colligo.Tensor, choice *Choice, w *window, s cuda.Stream) error {
	at, a := addressOf(x), &b.args.chain
	a.In, a.Out, a.Bytes = uint64(at), uint64(at), uint64(x.Size())
	a.Before, a.After = b.neighbours(root)
	a.Direct = 0
	if w != nil {
		next := (b.rank + 1) % b.size
		a.Direct, a.Mark, a.Next = 1, w.mark(at, x.Size()), uint64(w.peerAt(next, at))
	}
	var grid cuda.Grid
	grid, a.Tile, a.Pieces = b.relayGrid(choice, x.Size())
	return b.code.launch(t, b.code.move.broadcastChain, grid, unsafe.Pointer(a), s)
}

// neighbours returns the places of the ranks before and after this one in a chain from the root, 0 for none.
func (b *backend) neighbours(root int) (before, after uint32) {
	before, after = uint32(b.size-1), 1
	if b.rank == root {
		before = 0
	}
	if (b.rank+1)%b.size == root {
		after = 0
	}
	return before, after
}

// rowChain is chain by rows.
func (b *backend) rowChain(t cuda.Thread, root int, x colligo.Tensor, choice *Choice, s cuda.Stream) error {
	at, a := addressOf(x), &b.args.rowChain
	a.In, a.Out, a.Bytes = uint64(at), uint64(at), uint64(x.Size())
	a.Before, a.After = b.neighbours(root)
	// Its hops take a device longer than a launch its host: it is no graph.
	return b.code.launchOnce(t, b.code.move.broadcastRows, choice.quadGrid(x.Size(), b.multiprocessors), unsafe.Pointer(a), s)
}

// lineChain is chain by lines.
func (b *backend) lineChain(t cuda.Thread, root int, x colligo.Tensor, choice *Choice, s cuda.Stream) error {
	at, a := addressOf(x), &b.args.lines
	a.In, a.Out, a.Bytes, a.Ends = uint64(at), uint64(at), uint64(x.Size()), 0
	switch before, after := b.neighbours(root); {
	case before == 0:
		a.Ends = ptx.LineRoot
	case after == 0:
		a.Ends = ptx.LineLast
	}
	return b.code.launch(t, b.code.move.broadcastLines, b.lineGrid(choice, x.Size()), unsafe.Pointer(a), s)
}

// fittingChain returns a broadcast's way, which is by lines where another does not fit.
func (b *backend) fittingChain(c *Choice, bytes int) Way {
	switch {
	case c.Way == Rows:
		return b.fittingRows(c, bytes, 0, false)
	case c.Way == Follow && (bytes < leastPart || b.serial):
		return Lines
	}
	return c.Way
}
