package peer

import (
	"context"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// allReduce goes by packets or rows, by two shots of either, by lines, by tiles, by tiles straight into registered outputs, by
// a ring, or by half of one and copies into registered outputs. With B bytes and n ranks every rank stores (n-1)·B in one
// shot and 2(n-1)/n·B in two, twice that as packets and 16/15 of it as rows; all others are two shots. Sums are in rank
// order, but for lines, rings and copies.
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
	o := &sum{Call: c, in: in, out: out, bytes: bytes, part: up((bytes+b.size-1)/b.size, 16), window: b.window(out, bytes)}
	o.choice = b.pickFor(plan.AllReduce, bytes, o.window, out)
	if o.choice.Way == Copies && !o.window.whole {
		o.choice.Way = Direct
	}
	switch o.choice.Way = b.fitting(&o.choice, bytes, o.part); o.choice.Way {
	case Ring:
		return b.ringAllReduce(ctx, t, o, s)
	case Rows, RowsTwoShot:
		return b.reduceRows(ctx, t, o, s)
	case Lines:
		return b.reduceLines(ctx, t, o, s)
	case Follow:
		return b.reduceFollow(ctx, t, o, s)
	case Direct:
		return b.reduceDirect(ctx, t, o, s)
	case Copies:
		return b.reduceCopies(ctx, t, o, s)
	}
	return b.reduceStaged(ctx, t, o, s)
}

// sum is an all-reduce on its way.
type sum struct {
	*pg.Call
	in, out     cuda.Pointer
	bytes, part int
	window      *window // that the output lies in, nil if it is not registered
	choice      Choice
}

// fitting returns the choice's way, or the nearest one that takes so many bytes.
func (b *backend) fitting(c *Choice, bytes, part int) Way {
	two := bytes > (b.size-1)*part
	way := c.Way
	switch way {
	case Rows, RowsTwoShot:
		way = b.fittingRows(c, bytes, part, two)
	case TwoShot:
		if part > b.layout.packetSlot/4 || !two {
			way = Packets
		}
	}
	short := bytes < b.size*leastPart
	if way == Packets && bytes > b.layout.packetSlot/2 || way == Ring && short {
		way = Tiles
	}
	if way == Copies && short {
		way = Direct
	}
	if way == Follow && (short || b.serial) {
		way = Lines
	}
	return way
}

// fittingRows knows that rows in one shot go in rounds, in which each warp has a place for a quad at least.
func (b *backend) fittingRows(c *Choice, bytes, part int, two bool) Way {
	rows := func(n int) int { return (n + ptx.RowData - 1) / ptx.RowData * ptx.RowQuad }
	round := rows(bytes)
	if c.Way == Rows {
		g := c.quadGrid(bytes, b.multiprocessors)
		round = min(round, int(g.Blocks*g.Threads/32)*ptx.RowQuad)
	}
	switch {
	case !b.linked:
		return Packets
	case c.Way == RowsTwoShot && two && 2*rows(part) <= b.layout.rowSlot:
		return RowsTwoShot
	case round <= b.layout.rowSlot:
		return Rows
	}
	return Lines
}

// reduceStaged goes by packets or tiles.
func (b *backend) reduceStaged(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	family := ptx.PacketFamily
	if o.choice.Way == Tiles {
		family = ptx.TileFamily
	}
	r, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), family)
	if err != nil {
		return err
	}
	a := &b.args.allReduce
	a.In, a.Out, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(o.out), uint64(o.bytes), uint64(o.part), b.divisor(o.Op)
	f, grid := r.oneShot, o.choice.packetGrid(o.bytes, b.multiprocessors)
	switch o.choice.Way {
	case TwoShot:
		f, grid = r.twoShot, o.choice.packetGrid(o.part*(b.size-1), b.multiprocessors)
	case Tiles:
		f = r.tiles
		grid, a.Tile = b.twoPhaseGrid(&o.choice, o.part)
	}
	return b.code.launch(t, f, grid, unsafe.Pointer(a), s)
}

// reduceRows goes by rows.
func (b *backend) reduceRows(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	r, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), ptx.RowFamily)
	if err != nil {
		return err
	}
	a := &b.args.rows
	a.In, a.Out, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(o.out), uint64(o.bytes), uint64(o.part), b.divisor(o.Op)
	if o.choice.Way == Rows {
		return b.code.launch(t, r.rows, o.choice.quadGrid(o.bytes, b.multiprocessors), unsafe.Pointer(a), s)
	}
	return b.code.launch(t, r.rowsTwoShot, o.choice.quadGrid(o.part*(b.size-1), b.multiprocessors), unsafe.Pointer(a), s)
}

// reduceLines goes by lines.
func (b *backend) reduceLines(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	r, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), ptx.LineFamily)
	if err != nil {
		return err
	}
	a := &b.args.lines
	a.In, a.Out, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(o.out), uint64(o.bytes), uint64(o.part), b.divisor(o.Op)
	return b.code.launch(t, r.lines, b.lineGrid(&o.choice, o.part), unsafe.Pointer(a), s)
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
	b.args.unary = ptx.UnaryArgs{Out: uint64(out), In: uint64(in), Count: uint64(bytes / c.DType.Real().Size()), Factor: factor}
	return t.Launch(f, moveGrid(bytes), unsafe.Pointer(&b.args.unary), s)
}
