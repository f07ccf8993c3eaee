package peer

import (
	"context"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
)

// copyRingAllReduce moves 2(n-1)/n of the bytes out of every rank, by copy engines. The order of a sum is that of package
// ring.
func (b *backend) copyRingAllReduce(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	r, err := b.ringSum(ctx, t, o)
	if err != nil {
		return err
	}
	shape := b.ringShape(plan.AllReduce, (o.bytes+b.size-1)/b.size, &o.rule)
	shape.Count *= b.size
	p, err := ring.AllReduce(shape)
	if err != nil {
		return err
	}
	if err := first(b.meetPeers(t, s), r.enqueue(p, s)); err != nil {
		return err
	}
	return r.finish(s)
}

// ringSum returns a ring that reduces.
func (b *backend) ringSum(ctx context.Context, t cuda.Thread, o *sum) (*copyRing, error) {
	fold, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), ptx.LocalFamily)
	if err != nil {
		return nil, err
	}
	if err := b.makeCopyRing(ctx, t); err != nil {
		return nil, err
	}
	return &copyRing{backend: b, t: t, in: region{{o.in, 0, o.bytes}}, out: region{{o.out, 0, o.bytes}}, fold: fold.two.Function,
		grid: o.rule.foldGrid(), divisor: b.divisor(o.Op)}, nil
}

// foldGrid is for the kernels that empty slots.
func (c *Rule) foldGrid() cuda.Grid {
	return cuda.Grid{Blocks: uint32(c.Blocks), Threads: uint32(c.Threads)}
}

// ringShape returns the shape of a ring whose longest part has so many bytes, with the units of a part as its count. A part
// is cut into slices of one length, at least two, each as large as a slot at most; a lane has one of them, unless there are
// more than lanes. So that all ranks take the same steps in the same order, the plan has all slices in full; those beyond
// the end of a part, which both ends know, are left out when it is enqueued.
func (b *backend) ringShape(c plan.Coll, longest int, rule *Rule) plan.Shape {
	most := b.layout.ringSlot
	if rule.Tile > 0 {
		most = min(most, up(rule.Tile, ringUnit))
	}
	slices := max((units(longest)+most/ringUnit-1)/(most/ringUnit), 2)
	rounds := (slices + ringLanes - 1) / ringLanes
	lanes := (slices + rounds - 1) / rounds
	slice := (units(longest) + lanes*rounds - 1) / (lanes * rounds)
	return plan.Shape{Coll: c, Rank: b.rank, Size: b.size, Elem: ringUnit, Lanes: lanes, Chunk: slice, Count: slice * lanes * rounds}
}

// leastCut is the length of the shortest slice that is cut at the end of a ring, in units: copying it out takes longer than
// the engines need for one slice more.
const leastCut = (16 << 20) / ringUnit

// shortEnd cuts the last step in two, if what arrives is copied out: of four fifths and of one, for copying out is four times
// as fast as the engines.
func shortEnd(all []ringStep) []ringStep {
	last := &all[len(all)-1]
	if last.Reduce || last.Dst.Len < leastCut {
		return all
	}
	end, early := *last, last.Dst.Len-last.Dst.Len/5
	end.lane = ringLanes
	last.Src.Len, last.Dst.Len = early, early
	end.Src.Off, end.Dst.Off = end.Src.Off+early, end.Dst.Off+early
	end.Src.Len, end.Dst.Len = end.Src.Len-early, end.Dst.Len-early
	return append(all, end)
}

// sumInOutput has the sums of a reduce-scatter grow in the output of an all-reduce, at their places, instead of scratch.
func sumInOutput(p *plan.Plan) {
	for _, steps := range p.Lanes {
		var made plan.Span
		for i := range steps {
			st := &steps[i]
			if st.Src.Buf == plan.Scratch {
				st.Src = made
			}
			if st.From != plan.None {
				st.Dst = st.Acc.In(plan.Out, 0)
				made = st.Dst
			}
		}
	}
}

// enginesFor returns the rule for an exchange if copy engines do it.
func (b *backend) enginesFor(e *move) *Rule {
	if b.size == 1 || e.longest < leastPart || e.coll != plan.AllGather && (e.coll != plan.AllToAll || !e.even) {
		return nil
	}
	at := addressOf(e.out)
	w := b.window(at, e.out.Size())
	c := b.pickFor(e.coll, e.longest, w, at)
	if c.Algorithm == Fused && (!e.even || e.longest%16 != 0 || b.serial) {
		c = b.pickFor(e.coll, e.longest, w, at, Fused)
	}
	if c.Algorithm == CopyRing || c.Algorithm == Fused || c.Algorithm == CopyDirect && w.whole {
		return &c
	}
	return nil
}

// copyRingExchange has the parts of an all-gather go round from output to output, and those of an all-to-all go to one peer
// after the other. The own part is copied meanwhile.
func (b *backend) copyRingExchange(ctx context.Context, t cuda.Thread, e *move, rule *Rule, s cuda.Stream) error {
	if err := b.makeCopyRing(ctx, t); err != nil {
		return err
	}
	r := &copyRing{backend: b, t: t, grid: rule.foldGrid()}
	x := &b.args.exchange
	shape, planner := b.ringShape(e.coll, e.longest, rule), ring.AllGather
	for q := range b.size {
		d, unit := b.peerIndex(q), q*shape.Count
		r.in = append(r.in, part{cuda.Pointer(x.Send[d]), unit, int(x.SendBytes[d])})
		r.out = append(r.out, part{cuda.Pointer(x.Recv[d]), unit, int(x.RecvBytes[d])})
	}
	if e.coll == plan.AllToAll {
		shape.Lanes, planner = 1, ring.AllToAll
	} else {
		r.in = region{{cuda.Pointer(x.Send[0]), 0, int(x.SendBytes[0])}}
	}
	own, out, n := cuda.Pointer(x.Send[0]), cuda.Pointer(x.Recv[0]), int(x.SendBytes[0])
	p, err := planner(shape)
	if err != nil {
		return err
	}
	sendInput(p)
	if err := first(b.meetPeers(t, s), r.enqueue(p, s), b.copy(t, out, own, n, s)); err != nil {
		return err
	}
	return r.finish(s)
}

// sendInput has an all-gather send a rank's own part from its input, so that it need not wait for the copy in the output.
func sendInput(p *plan.Plan) {
	for _, steps := range p.Lanes {
		var own plan.Step
		for i := range steps {
			st := &steps[i]
			if st.Local(p.Shape.Rank) {
				own = *st
			} else if st.To != plan.None && st.Src == own.Dst {
				st.Src = own.Src
			}
		}
	}
}
