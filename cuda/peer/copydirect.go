package peer

import (
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
)

// CopyDirect has copy engines store in the peers' outputs, which lie in registered memory. An all-reduce reduces the parts by
// the first half of a ring. Then each rank copies its part into one peer's output after the other, the ranks each to another.
//
// A part that lands has passed all ranks. The rank that began its sum has sent its input. All others have folded theirs and
// sent the sum on before the last rank had it, which sends the part now. So no rank's ring reads or writes its output there
// any more, nor the input, where that is the same memory. This holds for each slice by itself.
//
// That all ranks have entered the operation, the meeting before the ring has said. It also compares which memory they mean,
// and fails the group where they differ, though the copies then go on.
const CopyDirect Algorithm = "copy-direct"

var copyDirect = &algorithm{
	name:       CopyDirect,
	source:     "CopyDirect",
	registered: true,
	forms: forms{
		plan.AllReduce: {fits: fitsCopyDirect, launch: allReduceCopyDirect},
		plan.AllGather: {fits: fitsCopyExchange, launch: exchangeCopyDirect},
		plan.AllToAll:  {fits: fitsCopyExchange, launch: exchangeCopyDirect},
	},
}

// fitsCopyDirect reports whether the parts are long enough for a ring, and the memory of whole pages everywhere. Copies
// between processes are slow where it is not.
func fitsCopyDirect(x *launcher, o *operation) bool { return o.window.Whole && fitsCopyRing(x, o) }

func fitsCopyExchange(x *launcher, o *operation) bool {
	return o.window.Whole && fitsCopyExchangeRing(x, o)
}

func allReduceCopyDirect(x *launcher, o *operation) error {
	r, err := newSumRing(x, o)
	if err != nil {
		return err
	}
	if err := meetDirect(x, o); err != nil {
		return err
	}
	shape := x.ringShape(plan.ReduceScatter, (o.bytes+x.size-1)/x.size, o.rule)
	p, err := ring.ReduceScatter(shape)
	if err != nil {
		return err
	}
	sumInOutput(p)
	if err := r.enqueue(p, o.s); err != nil {
		return err
	}
	if err := copyParts(r, o, shape); err != nil {
		return err
	}
	return r.finish(o.s)
}

// copyParts copies this rank's part to the peers. All slices but the last need not wait for the fold of that one, so the
// engine is at work during it.
func copyParts(r *copyRing, o *operation, shape plan.Shape) error {
	own, lanes := shape.PartSpan(plan.Out, r.rank), shape.LaneCount()
	early, late := own, own
	early.Len -= own.Len / lanes
	late.Off, late.Len = own.Off+early.Len, own.Len-early.Len
	copies, c := &r.engines.copy, streamorder.On(r.t)
	to := func(d int, part plan.Span) {
		if at, n := r.out.at(part); n > 0 {
			c.Copy(o.window.PeerAt((r.rank+d)%r.size, at), at, n, copies.Stream)
		}
	}
	r.waitFolds(&c, copies.Stream, lanes-1)
	to(1, early)
	r.waitFolds(&c, copies.Stream, lanes)
	to(1, late)
	for d := 2; d < r.size; d++ {
		to(d, own)
	}
	c.Follow(r.engines.signal.Stream, copies.Stream, copies.Event) // for which the end waits
	return c.Err
}

// waitFolds makes s wait for the folds of the first lanes.
func (r *copyRing) waitFolds(c *streamorder.Commands, s cuda.Stream, lanes int) {
	last := 0
	for lane := range lanes {
		if r.folded[lane] > r.folded[last] {
			last = lane
		}
	}
	if r.folded[last] > 0 {
		c.WaitEvent(s, r.engines.folded[last])
	}
}

// exchangeCopyDirect copies the parts that a rank sends into one peer's output after the other. All ranks have entered the operation
// before, and mean the same memory. All have ended their copies when it ends. The own part is copied meanwhile.
func exchangeCopyDirect(x *launcher, o *operation) error {
	if err := x.makeEngines(o.ctx, o.t); err != nil {
		return err
	}
	a, side, c := x.layExchange(o), &x.engines.fold, streamorder.On(o.t)
	c.Do(func() error { return meetExchange(x, o) })
	c.Follow(side.Stream, o.s, side.Event)
	c.Do(func() error {
		return x.copy(o.t, cuda.Pointer(a.Recv[0]), cuda.Pointer(a.Send[0]), int(a.SendBytes[0]), side.Stream)
	})
	for d := 1; d < x.size; d++ {
		if a.SendBytes[d] > 0 {
			to := o.window.PeerAt((x.rank+d)%x.size, o.out) + cuda.Pointer(o.offset)
			c.Copy(to, cuda.Pointer(a.Send[d]), int(a.SendBytes[d]), o.s)
		}
	}
	c.Follow(o.s, side.Stream, side.Event)
	c.Do(func() error { return x.meet(o.t, o.s) })
	return c.Err
}
