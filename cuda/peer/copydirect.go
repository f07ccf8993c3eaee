package peer

import (
	"context"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
)

// reduceCopyDirect reduces the parts of a tensor in registered memory by the first half of a ring. Then each rank copies its
// part into the output of one peer after the other, the ranks each to another.
//
// A part that lands has passed all ranks: the one that began its sum has sent its input, and all others have folded theirs
// and sent the sum on, before the last one, who sends the part now, had it. So no rank's ring reads or writes its output
// there any more, nor the input, where that is the same memory; each slice is a case of its own. That all have entered
// the operation the meeting before the ring has said. It also compares which memory they mean, and fails the group where
// they differ, though the copies then go on.
func (b *backend) reduceCopyDirect(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	r, err := b.ringSum(ctx, t, o)
	if err != nil {
		return err
	}
	if err := b.meetDirect(ctx, t, o, s); err != nil {
		return err
	}
	shape := b.ringShape(plan.ReduceScatter, (o.bytes+b.size-1)/b.size, &o.rule)
	p, err := ring.ReduceScatter(shape)
	if err != nil {
		return err
	}
	sumInOutput(p)
	if err := r.enqueue(p, s); err != nil {
		return err
	}
	if err := r.copyParts(o, shape); err != nil {
		return err
	}
	return r.finish(s)
}

// copyParts copies this rank's part to the peers. All slices but the last need not wait for the fold of that one, so the
// engine is at work during it.
func (r *copyRing) copyParts(o *sum, shape plan.Shape) error {
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
	return follow(r.t, r.streams.ring.signal.stream, c.stream, c.event) // which the end waits for
}

// waitFolds makes s wait for the folds of the first lanes.
func (r *copyRing) waitFolds(s cuda.Stream, lanes int) error {
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

// exchangeCopyDirect copies what a rank sends into the registered output of one peer after the other. All have entered the
// operation before, and mean the same memory; all have ended their copies when it ends. The own part is copied meanwhile.
func (b *backend) exchangeCopyDirect(ctx context.Context, t cuda.Thread, e *move, s cuda.Stream) error {
	if err := b.makeCopyRing(ctx, t); err != nil {
		return err
	}
	x, at := b.args.exchange, addressOf(e.out)
	w, side := b.window(at, e.out.Size()), &b.streams.ring.fold
	if err := first(b.meetExchange(t, w.mark(at, e.out.Size()), s), follow(t, side.stream, s, side.event),
		b.copy(t, cuda.Pointer(x.Recv[0]), cuda.Pointer(x.Send[0]), int(x.SendBytes[0]), side.stream)); err != nil {
		return err
	}
	for d := 1; d < b.size; d++ {
		if x.SendBytes[d] == 0 {
			continue
		}
		to := w.peerAt((b.rank+d)%b.size, at) + cuda.Pointer(e.offset)
		if err := t.Copy(to, cuda.Pointer(x.Send[d]), int(x.SendBytes[d]), s); err != nil {
			return err
		}
	}
	return first(follow(t, s, side.stream, side.event), b.meetPeers(t, s))
}

// meetExchange has the ranks meet and compare marks: an exchange into registered outputs without elements.
func (b *backend) meetExchange(t cuda.Thread, mark uint32, s cuda.Stream) error {
	a := &b.args.into
	clear(a.SendBytes[:])
	a.Mark = mark
	return b.code.launch(t, b.code.move.exchangeDirect, cuda.Grid{Blocks: 1, Threads: 32 * maxRanks}, unsafe.Pointer(a), s)
}
