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

// allReduce goes by LL or LL128, by two shots of either, by the sentinel protocol, by tiles, by tiles straight into registered outputs, by
// a ring, or by half of one and copies into registered outputs. With B bytes and n ranks every rank stores (n-1)·B in one
// shot and 2(n-1)/n·B in two, twice that as LL and 16/15 of it as LL128; all others are two shots. Sums are in rank
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
	o.rule = b.pickFor(plan.AllReduce, bytes, o.window, out)
	if o.rule.Algorithm == CopyDirect && !o.window.whole {
		o.rule.Algorithm = Direct
	}
	switch o.rule.Algorithm = b.fitting(&o.rule, bytes, o.part); o.rule.Algorithm {
	case CopyRing:
		return b.copyRingAllReduce(ctx, t, o, s)
	case LL128, LL128TwoShot:
		return b.reduceLL128(ctx, t, o, s)
	case Sentinel:
		return b.reduceSentinel(ctx, t, o, s)
	case Fused:
		return b.reduceFused(ctx, t, o, s)
	case Direct:
		return b.reduceDirect(ctx, t, o, s)
	case CopyDirect:
		return b.reduceCopyDirect(ctx, t, o, s)
	}
	return b.reduceStaged(ctx, t, o, s)
}

// sum is an all-reduce on its way.
type sum struct {
	*pg.Call
	in, out     cuda.Pointer
	bytes, part int
	window      *window // that the output lies in, nil if it is not registered
	rule        Rule
}

// fitting returns the rule's algorithm, or the nearest one that takes so many bytes.
func (b *backend) fitting(c *Rule, bytes, part int) Algorithm {
	two := bytes > (b.size-1)*part
	algorithm := c.Algorithm
	switch algorithm {
	case LL128, LL128TwoShot:
		algorithm = b.fittingLL128(c, bytes, part, two)
	case LLTwoShot:
		if part > b.layout.llSlot/4 || !two {
			algorithm = LL
		}
	}
	short := bytes < b.size*leastPart
	if algorithm == LL && bytes > b.layout.llSlot/2 || algorithm == CopyRing && short {
		algorithm = Tiles
	}
	if algorithm == CopyDirect && short {
		algorithm = Direct
	}
	if algorithm == Fused && (short || b.serial) {
		algorithm = Sentinel
	}
	return algorithm
}

// fittingLL128 knows that rows in one shot go in rounds, in which each warp has a place for a warp chunk at least.
func (b *backend) fittingLL128(c *Rule, bytes, part int, two bool) Algorithm {
	rows := func(n int) int { return (n + ptx.LL128Data - 1) / ptx.LL128Data * ptx.LL128Chunk }
	round := rows(bytes)
	if c.Algorithm == LL128 {
		g := c.ll128Grid(bytes, b.multiprocessors)
		round = min(round, int(g.Blocks*g.Threads/32)*ptx.LL128Chunk)
	}
	switch {
	case !b.linked:
		return LL
	case c.Algorithm == LL128TwoShot && two && 2*rows(part) <= b.layout.ll128Slot:
		return LL128TwoShot
	case round <= b.layout.ll128Slot:
		return LL128
	}
	return Sentinel
}

// reduceStaged goes by LL or tiles.
func (b *backend) reduceStaged(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	family := ptx.LLFamily
	if o.rule.Algorithm == Tiles {
		family = ptx.TileFamily
	}
	r, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), family)
	if err != nil {
		return err
	}
	a := &b.args.allReduce
	a.In, a.Out, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(o.out), uint64(o.bytes), uint64(o.part), b.divisor(o.Op)
	f, grid := r.ll, o.rule.llGrid(o.bytes, b.multiprocessors)
	switch o.rule.Algorithm {
	case LLTwoShot:
		f, grid = r.llTwoShot, o.rule.llGrid(o.part*(b.size-1), b.multiprocessors)
	case Tiles:
		f = r.tiles
		grid, a.Tile = b.twoPhaseGrid(&o.rule, o.part)
	}
	return b.code.launch(t, f, grid, unsafe.Pointer(a), s)
}

// reduceLL128 goes by LL128.
func (b *backend) reduceLL128(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	r, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), ptx.LL128Family)
	if err != nil {
		return err
	}
	a := &b.args.ll128
	a.In, a.Out, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(o.out), uint64(o.bytes), uint64(o.part), b.divisor(o.Op)
	if o.rule.Algorithm == LL128 {
		return b.code.launch(t, r.ll128, o.rule.ll128Grid(o.bytes, b.multiprocessors), unsafe.Pointer(a), s)
	}
	return b.code.launch(t, r.ll128TwoShot, o.rule.ll128Grid(o.part*(b.size-1), b.multiprocessors), unsafe.Pointer(a), s)
}

// reduceSentinel goes by the sentinel protocol.
func (b *backend) reduceSentinel(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	r, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), ptx.SentinelFamily)
	if err != nil {
		return err
	}
	a := &b.args.sentinel
	a.In, a.Out, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(o.out), uint64(o.bytes), uint64(o.part), b.divisor(o.Op)
	return b.code.launch(t, r.sentinel, b.sentinelGrid(&o.rule, o.part), unsafe.Pointer(a), s)
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
