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
// them more than once. A hop costs least by LL128, but a sixteenth of what they carry is flags, and most by tiles.
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
	rule := b.pickFor(plan.Broadcast, bytes, w, at)
	switch rule.Algorithm = b.fittingChain(&rule, bytes); rule.Algorithm {
	case LL128:
		return b.ll128Chain(t, c.Root, tensor, &rule, s)
	case Sentinel:
		return b.sentinelChain(t, c.Root, tensor, &rule, s)
	case Fused:
		return b.broadcastFused(ctx, t, c.Root, tensor, &rule, s)
	case Direct:
		return b.chain(t, c.Root, tensor, &rule, w, s)
	case Chain:
		return b.chain(t, c.Root, tensor, &rule, nil, s)
	}
	if rule.Algorithm == LL && bytes <= b.layout.llSlot/2 {
		a := &b.args.broadcast
		a.In, a.Out, a.Bytes, a.Root = uint64(at), uint64(at), uint64(bytes), uint32(b.peerIndex(c.Root))
		return b.code.launch(t, b.code.move.broadcastLL, rule.threadGrid(bytes), unsafe.Pointer(a), s)
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
func (b *backend) chain(t cuda.Thread, root int, x colligo.Tensor, rule *Rule, w *window, s cuda.Stream) error {
	at, a := addressOf(x), &b.args.chain
	a.In, a.Out, a.Bytes = uint64(at), uint64(at), uint64(x.Size())
	a.Before, a.After = b.neighbours(root)
	a.Direct = 0
	if w != nil {
		next := (b.rank + 1) % b.size
		a.Direct, a.Mark, a.Next = 1, w.mark(at, x.Size()), uint64(w.peerAt(next, at))
	}
	var grid cuda.Grid
	grid, a.Tile, a.Pieces = b.rotationGrid(rule, x.Size())
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

// ll128Chain is chain by LL128.
func (b *backend) ll128Chain(t cuda.Thread, root int, x colligo.Tensor, rule *Rule, s cuda.Stream) error {
	at, a := addressOf(x), &b.args.ll128Chain
	a.In, a.Out, a.Bytes = uint64(at), uint64(at), uint64(x.Size())
	a.Before, a.After = b.neighbours(root)
	// Its hops take a device longer than a launch its host: it is no graph.
	return b.code.launchOnce(t, b.code.move.broadcastLL128, rule.ll128Grid(x.Size(), b.multiprocessors), unsafe.Pointer(a), s)
}

// sentinelChain is chain by the sentinel protocol.
func (b *backend) sentinelChain(t cuda.Thread, root int, x colligo.Tensor, rule *Rule, s cuda.Stream) error {
	at, a := addressOf(x), &b.args.sentinel
	a.In, a.Out, a.Bytes, a.Ends = uint64(at), uint64(at), uint64(x.Size()), 0
	switch before, after := b.neighbours(root); {
	case before == 0:
		a.Ends = ptx.EndRoot
	case after == 0:
		a.Ends = ptx.EndLast
	}
	return b.code.launch(t, b.code.move.broadcastSentinel, b.sentinelGrid(rule, x.Size()), unsafe.Pointer(a), s)
}

// fittingChain returns a broadcast's algorithm, which is by the sentinel protocol where another does not fit.
func (b *backend) fittingChain(c *Rule, bytes int) Algorithm {
	switch {
	case c.Algorithm == LL128:
		return b.fittingLL128(c, bytes, 0, false)
	case c.Algorithm == Fused && (bytes < leastPart || b.serial):
		return Sentinel
	}
	return c.Algorithm
}
