package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// exchangeCall carries out the collectives that only move: every rank sends each peer one range of bytes, or none, and
// receives one.
func (b *backend) exchangeCall(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
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
	longest := 0
	for q := range b.size {
		longest = max(longest, elem*shape.PartLen(q))
	}
	// Only a pair knows what it exchanges with splits of its own, so all take the way that fits any length.
	return b.launchExchange(t, c.Coll, longest, c.RecvCounts != nil, s)
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
	a, d := &b.args.exchange, b.place(q)
	a.Send[d], a.SendBytes[d] = uint64(at), uint64(bytes)
}

func (b *backend) receives(q int, at cuda.Pointer, bytes int) {
	a, d := &b.args.exchange, b.place(q)
	a.Recv[d], a.RecvBytes[d] = uint64(at), uint64(bytes)
}

// launchExchange enqueues the exchange at hand. longest is the longest range of all pairs, equal on all ranks, unless
// unknown: then the grid is that of long ones.
func (b *backend) launchExchange(t cuda.Thread, coll plan.Coll, longest int, unknown bool, s cuda.Stream) error {
	if longest == 0 && !unknown {
		return nil
	}
	a := &b.args.exchange
	if b.size == 1 {
		return b.copy(t, cuda.Pointer(a.Recv[0]), cuda.Pointer(a.Send[0]), int(a.SendBytes[0]), s)
	}
	if unknown {
		longest = 1 << 30
	}
	choice := b.pick(coll, longest)
	f, grid := b.code.move.exchangePackets, choice.lineGrid(longest)
	if choice.Way != Packets || longest > b.layout.packetSlot/2 {
		f = b.code.move.exchangeTiles
		grid, a.Tile = b.tileGrid(&choice, longest)
	}
	return t.Launch(f, grid, unsafe.Pointer(a), s)
}

// broadcastByParts is how many bytes make it worth to scatter a broadcast before all ranks gather it.
const broadcastByParts = 128 << 10

// broadcast sends B bytes to each peer; large ones are scattered, and then gathered by all, so that no rank sends more
// than 2(n-1)/n·B.
func (b *backend) broadcast(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	bytes, at := c.Count*c.DType.Size(), addressOf(c.Out)
	if b.rank == c.Root {
		at = addressOf(c.In)
	}
	if b.size == 1 || bytes == 0 {
		return nil
	}
	if bytes < broadcastByParts {
		b.spread(c.Root, func(int) (cuda.Pointer, int) { return at, bytes })
		return b.launchExchange(t, plan.Broadcast, bytes, false, s)
	}
	part := up((bytes+b.size-1)/b.size, 512)
	piece := func(q int) (cuda.Pointer, int) {
		from := min(q*part, bytes)
		return at + cuda.Pointer(from), min(part, bytes-from)
	}
	b.spread(c.Root, piece)
	if err := b.launchExchange(t, plan.Broadcast, part, false, s); err != nil {
		return err
	}
	b.collect(c.Root, piece)
	return b.launchExchange(t, plan.Broadcast, part, false, s)
}

// spread sets an exchange in which the root sends each peer the piece for it.
func (b *backend) spread(root int, piece func(q int) (cuda.Pointer, int)) {
	clear(b.args.exchange.SendBytes[:])
	clear(b.args.exchange.RecvBytes[:])
	if b.rank != root {
		at, n := piece(b.rank)
		b.receives(root, at, n)
		return
	}
	for q := range b.size {
		if q != root {
			at, n := piece(q)
			b.sends(q, at, n)
		}
	}
}

// collect sets an exchange in which every rank sends its piece to all peers but the root, which has them.
func (b *backend) collect(root int, piece func(q int) (cuda.Pointer, int)) {
	clear(b.args.exchange.SendBytes[:])
	clear(b.args.exchange.RecvBytes[:])
	own, n := piece(b.rank)
	for q := range b.size {
		if q == b.rank {
			continue
		}
		if q != root {
			b.sends(q, own, n)
		}
		if b.rank != root {
			at, m := piece(q)
			b.receives(q, at, m)
		}
	}
}
