package peer

import (
	"context"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// allReduce goes by packets, two shots of packets, tiles, or a ring. With B bytes and n ranks every rank stores
// (n-1)·B·2 as packets, 2(n-1)/n·B·2 in two shots, else 2(n-1)/n·B. Sums are in rank order, but for rings.
func (b *backend) allReduce(ctx context.Context, t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	bytes := c.Count * c.DType.Size()
	if bytes == 0 {
		return nil
	}
	in, out := addressOf(c.In), addressOf(c.Out)
	if c.Op.Kind() == colligo.KindPremulSum {
		if err := b.multiply(ctx, t, c, out, in, bytes, s); err != nil {
			return err
		}
		in = out
	}
	if b.size == 1 {
		return b.copy(t, out, in, bytes, s)
	}
	choice := b.pick(plan.AllReduce, bytes)
	a := &b.args.allReduce
	a.In, a.Out, a.Bytes, a.Divisor = uint64(in), uint64(out), uint64(bytes), b.divisor(c.Op)
	part := up((bytes+b.size-1)/b.size, 16)
	a.Part = uint64(part)
	way := b.fitting(choice.Way, bytes, part)
	if way == Ring {
		return b.ringAllReduce(ctx, t, c, &choice, s)
	}
	family := kernels.PacketFamily
	if way == Tiles {
		family = kernels.TileFamily
	}
	r, err := b.reducers(ctx, t, c.DType, c.Op.Kind(), family)
	if err != nil {
		return err
	}
	f, grid := r.oneShot, choice.lineGrid(bytes)
	switch way {
	case TwoShot:
		f, grid = r.twoShot, choice.lineGrid(part*(b.size-1))
	case Tiles:
		f = r.tiles
		grid, a.Tile = b.tileGrid(&choice, part)
	}
	return t.Launch(f, grid, unsafe.Pointer(a), s)
}

// fitting returns the way, or the nearest one that takes so many bytes.
func (b *backend) fitting(way Way, bytes, part int) Way {
	if way == TwoShot && (part > b.layout.packetSlot/4 || bytes <= (b.size-1)*part) {
		way = Packets
	}
	if way == Packets && bytes > b.layout.packetSlot/2 || way == Ring && bytes < b.size*lanes*ringUnit {
		way = Tiles
	}
	return way
}

// divisor returns what sums are divided by, 0 for nothing.
func (b *backend) divisor(op colligo.ReduceOp) uint32 {
	if op.Kind() == colligo.KindAvg {
		return uint32(b.size)
	}
	return 0
}

// multiply enqueues out = in · factor of a premultiplied sum.
func (b *backend) multiply(ctx context.Context, t cuda.Thread, c *pg.Call, out, in cuda.Pointer, bytes int, s cuda.Stream) error {
	factor, by := c.Op.Factor()
	if by != nil {
		var err error
		if factor, err = kernels.Scalar(*by); err != nil {
			return err
		}
	}
	f, err := b.scaler(ctx, t, c.DType)
	if err != nil {
		return err
	}
	b.args.unary = kernels.UnaryArgs{Out: uint64(out), In: uint64(in), Count: uint64(bytes / c.DType.Real().Size()), Factor: factor}
	return t.Launch(f, moveGrid(bytes), unsafe.Pointer(&b.args.unary), s)
}
