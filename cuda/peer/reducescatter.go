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

// reduceScatter sends each peer its part and reduces the own one, in rank order: (n-1)/n of all parts' bytes are stored.
func (b *backend) reduceScatter(ctx context.Context, t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	if launched, err := b.even(ctx, t, c, s); launched || err != nil {
		return err
	}
	shape := plan.Shape{Coll: c.Coll, Rank: b.rank, Size: b.size, Count: c.Count, Counts: c.Counts}
	elem := c.DType.Size()
	in := ranges{c.In, c.Ins, elem}
	a, longest := &b.args.scatter, 0
	for q := range b.size {
		n := elem * shape.PartLen(q)
		longest = max(longest, n)
		a.Offset[b.peerIndex(q)], a.Bytes[b.peerIndex(q)] = uint64(in.at(q, shape.PartOff(q))), uint64(n)
	}
	return b.scatterReduced(ctx, t, c, longest, s)
}

// reduce is a reduceScatter in which all parts but the root's are empty.
func (b *backend) reduce(ctx context.Context, t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	bytes := c.Count * c.DType.Size()
	a := &b.args.scatter
	clear(a.Bytes[:])
	d := b.peerIndex(c.Root)
	a.Offset[d], a.Bytes[d] = uint64(addressOf(c.In)), uint64(bytes)
	return b.scatterReduced(ctx, t, c, bytes, s)
}

// scatterReduced launches what b.args.scatter says. Offsets there are addresses.
func (b *backend) scatterReduced(ctx context.Context, t cuda.Thread, c *pg.Call, longest int, s cuda.Stream) error {
	a := &b.args.scatter
	if longest == 0 {
		return nil
	}
	if c.Op.Kind() == colligo.KindPremulSum {
		return b.scatterScaled(ctx, t, c, longest, s)
	}
	if b.size == 1 {
		return b.copy(t, addressOf(c.Out), cuda.Pointer(a.Offset[0]), longest, s)
	}
	a.In, a.Out, a.Divisor = 0, uint64(addressOf(c.Out)), b.divisor(c.Op)
	rule := b.pick(c.Coll, longest)
	if rule.Algorithm == Fused && !b.fusable(c, longest) {
		rule = b.pickFor(c.Coll, longest, nil, 0, Fused)
	}
	packets := rule.Algorithm == LL && longest <= b.layout.llSlot/2
	family := ptx.TileFamily
	switch {
	case packets:
		family = ptx.LLFamily
	case rule.Algorithm == Fused:
		family = ptx.FusedFamily
	}
	r, err := b.reducers(ctx, t, c.DType, c.Op.Kind(), family)
	switch {
	case err != nil:
		return err
	case rule.Algorithm == Fused && c.Coll == plan.Reduce:
		return b.rootFused(ctx, t, c, r, &rule, s)
	case rule.Algorithm == Fused:
		return b.scatterFused(ctx, t, c, r, &rule, s)
	}
	f, grid := r.scatterLL, rule.llGrid(longest*(b.size-1), b.multiprocessors)
	if !packets {
		f = r.scatterTiles
		grid, a.Tile = b.tileGrid(&rule, longest)
	}
	return b.code.launch(t, f, grid, unsafe.Pointer(a), s)
}

// fusable reports whether what b.args.scatter says can be reduced behind copy engines between two ranks, in parts of at most so many
// bytes. Both say the same.
func (b *backend) fusable(c *pg.Call, longest int) bool {
	parts := &b.args.scatter.Bytes
	return !b.serial && longest >= leastPart && (c.Coll == plan.Reduce || parts[0] == parts[1] && longest%16 == 0)
}
