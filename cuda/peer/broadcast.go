package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// broadcast sends all bytes to each peer, or, of large tensors, hands tiles on from rank to rank, so that none sends them
// more than once.
func (b *backend) broadcast(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
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
	switch choice.Way {
	case Direct:
		return b.chain(t, c.Root, tensor, &choice, w, s)
	case Chain:
		return b.chain(t, c.Root, tensor, &choice, nil, s)
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
	a.Before, a.After, a.Direct = uint32(b.size-1), 1, 0
	if b.rank == root {
		a.Before = 0
	}
	next := (b.rank + 1) % b.size
	if next == root {
		a.After = 0
	}
	if w != nil {
		a.Direct, a.Mark, a.Next = 1, w.mark(at, x.Size()), uint64(w.peerAt(next, at))
	}
	var grid cuda.Grid
	grid, a.Tile, a.Pieces = b.relayGrid(choice, x.Size())
	return b.code.launch(t, b.code.move.broadcastChain, grid, unsafe.Pointer(a), s)
}
