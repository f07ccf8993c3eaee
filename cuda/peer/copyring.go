package peer

import (
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
)

// CopyRing has copy engines go round the ring, and a fold kernel for each slice. An all-to-all goes to one peer after the
// other. With B bytes and n ranks an all-reduce moves 2(n-1)/n·B out of every rank, and its sums are in the order of package
// ring. The type copyRing says how a ring is enqueued, and why it is right.
const CopyRing Algorithm = "copy-ring"

var copyRings = &algorithm{
	name:   CopyRing,
	source: "CopyRing",
	forms: forms{
		plan.AllReduce: {fits: fitsCopyRing, launch: allReduceCopyRing},
		plan.AllGather: {fits: fitsCopyExchangeRing, launch: exchangeCopyRing},
		plan.AllToAll:  {fits: fitsCopyExchangeRing, launch: exchangeCopyRing},
	},
}

var copyRingFold = foldEntryOf(ptx.LocalFamily, ptx.ReduceTwo)

// fitsCopyRing reports whether each part can be cut in two slices.
func fitsCopyRing(x *launcher, o *operation) bool {
	return o.bytes >= x.size*leastPart && !capturedBeside(x, o)
}

// capturedBeside reports whether a graph captures the operation of a rank that shares its device. Two such graphs sometimes wait for each
// other for ever, as seen on one H100. Another algorithm takes the operation then, on all ranks.
func capturedBeside(x *launcher, o *operation) bool { return x.serial && o.captured() }

// fitsCopyExchangeRing leaves out uneven exchanges of which each pair of ranks knows its lengths alone.
func fitsCopyExchangeRing(x *launcher, o *operation) bool {
	return o.bytes >= leastPart && !capturedBeside(x, o) && (o.Coll == plan.AllGather && o.RecvCounts == nil || o.even)
}

func allReduceCopyRing(x *launcher, o *operation) error {
	r, err := newSumRing(x, o)
	if err != nil {
		return err
	}
	shape := x.ringShape(plan.AllReduce, (o.bytes+x.size-1)/x.size, o.rule)
	shape.Count *= x.size
	p, err := ring.AllReduce(shape)
	if err != nil {
		return err
	}
	return r.run(p, o)
}

// newSumRing returns a ring that reduces.
func newSumRing(x *launcher, o *operation) (*copyRing, error) {
	fold, err := x.fold(o, copyRingFold)
	if err != nil {
		return nil, err
	}
	if err := x.makeEngines(o.ctx, o.t); err != nil {
		return nil, err
	}
	return &copyRing{launcher: x, t: o.t, in: region{{o.in, 0, o.bytes}}, out: region{{o.out, 0, o.bytes}}, fold: fold.Function,
		grid: o.rule.foldGrid(), divisor: x.divisor(o.Op)}, nil
}

// exchangeCopyRing has the parts of an all-gather go round from output to output, and those of an all-to-all go to one peer
// after the other. The own part is copied meanwhile.
func exchangeCopyRing(x *launcher, o *operation) error {
	if err := x.makeEngines(o.ctx, o.t); err != nil {
		return err
	}
	r, a := &copyRing{launcher: x, t: o.t, grid: o.rule.foldGrid()}, x.layExchange(o)
	shape, planner := x.ringShape(o.Coll, o.bytes, o.rule), ring.AllGather
	for q := range x.size {
		d, unit := x.peerIndex(q), q*shape.Count
		r.in = append(r.in, part{cuda.Pointer(a.Send[d]), unit, int(a.SendBytes[d])})
		r.out = append(r.out, part{cuda.Pointer(a.Recv[d]), unit, int(a.RecvBytes[d])})
	}
	if o.Coll == plan.AllToAll {
		shape.Lanes, planner = 1, ring.AllToAll
	} else {
		r.in = region{{cuda.Pointer(a.Send[0]), 0, int(a.SendBytes[0])}}
	}
	own, out, n := cuda.Pointer(a.Send[0]), cuda.Pointer(a.Recv[0]), int(a.SendBytes[0])
	p, err := planner(shape)
	if err != nil {
		return err
	}
	sendInput(p)
	c := streamorder.On(o.t)
	c.Do(func() error { return x.meet(o.t, o.s) })
	c.Do(func() error { return r.enqueue(p, o.s) })
	c.Do(func() error { return x.copy(o.t, out, own, n, o.s) })
	c.Do(func() error { return r.finish(o.s) })
	return c.Err
}

// foldGrid is for the kernels that empty slots.
func (r *Rule) foldGrid() cuda.Grid {
	return cuda.Grid{Blocks: uint32(r.Blocks), Threads: uint32(r.Threads)}
}

// ringUnit is the element of a ring's plan, in bytes, so that slices begin at good addresses. The last unit of a tensor may
// be short.
const ringUnit = 4 << 10

// leastPart is the smallest part that a ring can cut in two slices.
const leastPart = 2 * ringUnit

// ringLanes is how many lanes the plan of a ring has at most.
const ringLanes = 16

// ringShape returns the shape of a ring whose longest part has so many bytes, with the units of a part as its count. A part
// is cut into slices of one length, at least two, each as large as a slot at most. A lane has one of them, unless there are
// more than lanes.
//
// So that all ranks take the same steps in the same order, the plan has all slices in full. Those beyond the end of a part,
// which both ends know, are left out when the plan is enqueued.
func (x *launcher) ringShape(c plan.Coll, longest int, r *Rule) plan.Shape {
	most := x.layout.RingSlot
	if r.Tile > 0 {
		most = min(most, up(r.Tile, ringUnit))
	}
	slices := max((units(longest)+most/ringUnit-1)/(most/ringUnit), 2)
	rounds := (slices + ringLanes - 1) / ringLanes
	lanes := (slices + rounds - 1) / rounds
	slice := (units(longest) + lanes*rounds - 1) / (lanes * rounds)
	return plan.Shape{Coll: c, Rank: x.rank, Size: x.size, Elem: ringUnit, Lanes: lanes, Chunk: slice, Count: slice * lanes * rounds}
}

// units returns how many units some bytes begin.
func units(bytes int) int { return (bytes + ringUnit - 1) / ringUnit }

// leastCut is the length of the shortest slice that is cut at the end of a ring, in units. Copying a longer one out takes more
// time than the engines need for one slice more.
const leastCut = (16 << 20) / ringUnit

// shortEnd cuts the last step in two, if the slice that arrives is copied out. The first has four fifths, for copying out is
// four times as fast as the engines.
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
