package peer

import (
	"context"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// exchangeCall carries out the collectives that only move: every rank sends each peer one range of bytes, or none, and
// receives one.
func (b *backend) exchangeCall(ctx context.Context, t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	if launched, err := b.even(ctx, t, c, s); launched || err != nil {
		return err
	}
	clear(b.args.exchange.SendBytes[:])
	clear(b.args.exchange.RecvBytes[:])
	shape := plan.Shape{Coll: c.Coll, Rank: b.rank, Size: b.size, Root: c.Root, Count: c.Count, Counts: c.Counts, RecvCounts: c.RecvCounts}
	elem := c.DType.Size()
	in, out := ranges{c.In, c.Ins, elem}, ranges{c.Out, c.Outs, elem}
	for q := range b.size {
		switch c.Coll {
		case plan.AllGather:
			b.sends(q, in.whole(), elem*shape.PartLen(b.rank))
			b.receives(q, out.at(q, shape.PartOff(q)), elem*shape.PartLen(q))
		case plan.AllToAll:
			b.sends(q, in.at(q, shape.PartOff(q)), elem*shape.PartLen(q))
			b.receives(q, out.at(q, shape.RecvOff(q)), elem*shape.RecvLen(q))
		case plan.Gather:
			if q == c.Root {
				b.sends(q, in.whole(), elem*shape.PartLen(b.rank))
			}
			if b.rank == c.Root {
				b.receives(q, out.at(q, shape.PartOff(q)), elem*shape.PartLen(q))
			}
		case plan.Scatter:
			if b.rank == c.Root {
				b.sends(q, in.at(q, shape.PartOff(q)), elem*shape.PartLen(q))
			}
			if q == c.Root {
				b.receives(q, out.whole(), elem*shape.PartLen(b.rank))
			}
		}
	}
	e := &move{coll: c.Coll, unknown: c.RecvCounts != nil}
	for q := range b.size {
		e.longest = max(e.longest, elem*shape.PartLen(q))
	}
	if c.Coll == plan.AllGather || c.Coll == plan.AllToAll && !e.unknown {
		e.even, e.out, e.offset = c.Counts == nil && !e.unknown, c.Out, elem*shape.PartOff(b.rank)
	}
	return b.exchange(ctx, t, e, s)
}

// exchange carries out the exchange at hand.
func (b *backend) exchange(ctx context.Context, t cuda.Thread, e *move, s cuda.Stream) error {
	switch rule := b.enginesFor(e); {
	case rule == nil:
		return b.launchExchange(t, e, s)
	case rule.Algorithm == CopyDirect:
		return b.exchangeCopyDirect(ctx, t, e, s)
	case rule.Algorithm == Fused:
		return b.exchangeFused(ctx, t, e, rule, s)
	default:
		return b.copyRingExchange(ctx, t, e, rule, s)
	}
}

// move is an exchange on its way.
type move struct {
	coll    plan.Coll
	longest int  // bytes of the longest range of all pairs, equal on all ranks
	unknown bool // it is not: with splits of its own only a pair knows what it exchanges
	even    bool // every rank sends each peer as much
	// Where what this rank sends goes to in every peer's output, whose twin out is; invalid for lists and where it differs.
	out    colligo.Tensor
	offset int
}

// ranges are the parts of one tensor, or a tensor for each rank.
type ranges struct {
	one  colligo.Tensor
	list []colligo.Tensor
	elem int
}

func (r *ranges) whole() cuda.Pointer { return addressOf(r.one) }

// at returns rank q's part, which in one tensor begins at element off.
func (r *ranges) at(q, off int) cuda.Pointer {
	if r.list != nil {
		return addressOf(r.list[q])
	}
	return addressOf(r.one) + cuda.Pointer(off*r.elem)
}

// sends and receives set what goes to and comes from a rank in the exchange at hand.
func (b *backend) sends(q int, at cuda.Pointer, bytes int) {
	a, d := &b.args.exchange, b.peerIndex(q)
	a.Send[d], a.SendBytes[d] = uint64(at), uint64(bytes)
}

func (b *backend) receives(q int, at cuda.Pointer, bytes int) {
	a, d := &b.args.exchange, b.peerIndex(q)
	a.Recv[d], a.RecvBytes[d] = uint64(at), uint64(bytes)
}

// launchExchange enqueues the exchange at hand. With unknown lengths the algorithm is one that fits any, and the grid that of long
// ones.
func (b *backend) launchExchange(t cuda.Thread, e *move, s cuda.Stream) error {
	if e.longest == 0 && !e.unknown {
		return nil
	}
	a := &b.args.exchange
	if b.size == 1 {
		return b.copy(t, cuda.Pointer(a.Recv[0]), cuda.Pointer(a.Send[0]), int(a.SendBytes[0]), s)
	}
	if e.unknown {
		e.longest = 1 << 30
	}
	at := addressOf(e.out)
	w := b.window(at, e.out.Size())
	rule := b.pickFor(e.coll, e.longest, w, at, Fused)
	if rule.Algorithm == Direct || rule.Algorithm == CopyDirect {
		return b.exchangeDirect(t, e, &rule, w, s)
	}
	f, grid := b.code.move.exchangeLL, rule.threadGrid(e.longest*b.size)
	if rule.Algorithm != LL || e.longest > b.layout.llSlot/2 {
		f = b.code.move.exchangeTiles
		grid, a.Tile = b.tileGrid(&rule, e.longest)
		if (rule.Algorithm == Rotation || rule.Algorithm == CopyRing) && e.even {
			f = b.code.move.exchangeRotation
			grid, a.Tile, a.Pieces = b.rotationGrid(&rule, e.longest)
		}
	}
	return b.code.launch(t, f, grid, unsafe.Pointer(a), s)
}

// exchangeDirect stores in the peers' registered outputs.
func (b *backend) exchangeDirect(t cuda.Thread, e *move, rule *Rule, w *window, s cuda.Stream) error {
	x, a := &b.args.exchange, &b.args.into
	at := addressOf(e.out)
	a.Send, a.SendBytes, a.Mark = x.Send, x.SendBytes, w.mark(at, e.out.Size())
	for q := range b.size {
		a.Recv[b.peerIndex(q)] = uint64(w.peerAt(q, at)) + uint64(e.offset)
	}
	return b.code.launch(t, b.code.move.exchangeDirect, rule.threadGrid(e.longest), unsafe.Pointer(a), s)
}
