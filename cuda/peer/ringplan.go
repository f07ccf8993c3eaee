package peer

import (
	"context"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
)

// ringAllReduce moves 2(n-1)/n of the bytes out of every rank, by copy engines. The order of a sum is that of package
// ring.
func (b *backend) ringAllReduce(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	r, err := b.ringSum(ctx, t, o)
	if err != nil {
		return err
	}
	shape := b.ringShape(plan.AllReduce, (o.bytes+b.size-1)/b.size, &o.choice)
	shape.Count *= b.size
	p, err := ring.AllReduce(shape)
	if err != nil {
		return err
	}
	return first(b.meetPeers(t, s), r.enqueue(p, s), r.finish(s))
}

// reduceCopies reduces the parts of a tensor in registered memory by the first half of a ring. Then each rank copies its
// part into the output of one peer after the other, the ranks each to another.
//
// A part that lands has passed all ranks: the one that began its sum has sent its input, and all others have folded theirs
// and sent the sum on, before the last one, who sends the part now, had it. So no rank's ring reads or writes its output
// there any more, nor the input, where that is the same memory; each slice is a case of its own. That all have entered
// the operation the meeting before the ring has said; it also compares which memory they mean, and fails the group where they differ,
// though the copies then go on.
func (b *backend) reduceCopies(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	r, err := b.ringSum(ctx, t, o)
	if err != nil {
		return err
	}
	if err := b.meetDirect(ctx, t, o, s); err != nil {
		return err
	}
	shape := b.ringShape(plan.ReduceScatter, (o.bytes+b.size-1)/b.size, &o.choice)
	p, err := ring.ReduceScatter(shape)
	if err != nil {
		return err
	}
	sumInOutput(p)
	return first(r.enqueue(p, s), r.copyParts(o, shape, s), r.finish(s))
}

// copyParts copies this rank's part to the peers. All slices but the last need not wait for the fold of that one, so the
// engine is at work during it.
func (r *ringRun) copyParts(o *sum, shape plan.Shape, s cuda.Stream) error {
	own, lanes := shape.PartSpan(plan.Out, r.rank), shape.LaneCount()
	early, late := own, own
	early.Len -= own.Len / lanes
	late.Off, late.Len = own.Off+early.Len, own.Len-early.Len
	c := &r.streams.ring.copy
	to := func(d int, part plan.Span) error {
		at, n := r.out.at(part)
		if n <= 0 {
			return nil
		}
		return r.t.Copy(o.window.peerAt((r.rank+d)%r.size, at), at, n, c.stream)
	}
	if err := first(r.waitFolds(c.stream, lanes-1), to(1, early), r.waitFolds(c.stream, lanes), to(1, late)); err != nil {
		return err
	}
	for d := 2; d < r.size; d++ {
		if err := to(d, own); err != nil {
			return err
		}
	}
	return follow(r.t, s, c.stream, c.event)
}

// waitFolds makes s wait for the folds of the first lanes.
func (r *ringRun) waitFolds(s cuda.Stream, lanes int) error {
	last := 0
	for lane := range lanes {
		if r.folded[lane] > r.folded[last] {
			last = lane
		}
	}
	if r.folded[last] == 0 {
		return nil
	}
	return r.t.WaitEvent(s, r.streams.ring.folded[last])
}

// ringSum returns a ring that reduces.
func (b *backend) ringSum(ctx context.Context, t cuda.Thread, o *sum) (*ringRun, error) {
	fold, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), kernels.LocalFamily)
	if err != nil {
		return nil, err
	}
	if err := b.makeRing(ctx, t); err != nil {
		return nil, err
	}
	return &ringRun{backend: b, t: t, in: region{{o.in, 0, o.bytes}}, out: region{{o.out, 0, o.bytes}}, fold: fold.two,
		grid: o.choice.foldGrid(), divisor: b.divisor(o.Op)}, nil
}

// foldGrid is for the kernels that empty slots.
func (c *Choice) foldGrid() cuda.Grid {
	return cuda.Grid{Blocks: uint32(c.Blocks), Threads: uint32(c.Threads)}
}

// ringShape returns the shape of a ring whose longest part has so many bytes, with the units of a part as its count. A part
// is cut into slices of one length, at least two, each as large as a slot at most; a lane has one of them, unless there are
// more than lanes. So that all ranks take the same steps in the same order, the plan has all slices in full; those beyond
// the end of a part, which both ends know, are left out when it is enqueued.
func (b *backend) ringShape(c plan.Coll, longest int, choice *Choice) plan.Shape {
	most := b.layout.ringSlot
	if choice.Tile > 0 {
		most = min(most, up(choice.Tile, ringUnit))
	}
	slices := max((units(longest)+most/ringUnit-1)/(most/ringUnit), 2)
	rounds := (slices + ringLanes - 1) / ringLanes
	lanes := (slices + rounds - 1) / rounds
	slice := (units(longest) + lanes*rounds - 1) / (lanes * rounds)
	return plan.Shape{Coll: c, Rank: b.rank, Size: b.size, Elem: ringUnit, Lanes: lanes, Chunk: slice, Count: slice * lanes * rounds}
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

// ringFor returns the line of the table for an exchange if it goes by a ring.
func (b *backend) ringFor(e *move) *Choice {
	if b.size == 1 || e.longest < leastPart || e.coll != plan.AllGather && (e.coll != plan.AllToAll || !e.even) {
		return nil
	}
	at := addressOf(e.out)
	c := b.pickFor(e.coll, e.longest, b.window(at, e.out.Size()), at)
	if c.Way != Ring {
		return nil
	}
	return &c
}

// ringExchange has the parts of an all-gather go round from output to output, and those of an all-to-all go to one peer
// after the other. The own part is copied meanwhile.
func (b *backend) ringExchange(ctx context.Context, t cuda.Thread, e *move, choice *Choice, s cuda.Stream) error {
	if err := b.makeRing(ctx, t); err != nil {
		return err
	}
	r := &ringRun{backend: b, t: t, grid: choice.foldGrid()}
	x := &b.args.exchange
	shape, planner := b.ringShape(e.coll, e.longest, choice), ring.AllGather
	for q := range b.size {
		d, unit := b.place(q), q*shape.Count
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
	return first(b.meetPeers(t, s), r.enqueue(p, s), b.copy(t, out, own, n, s), r.finish(s))
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
