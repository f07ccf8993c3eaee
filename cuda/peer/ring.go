package peer

import (
	"context"
	"errors"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
)

// ringUnit is what the plan of a ring takes for an element, in bytes, so that pieces begin at good addresses. The last
// unit of a tensor may be short.
const ringUnit = 4 << 10

// stepCommands is about how many commands a step enqueues.
const stepCommands = 10

// ringRun enqueues a plan of package ring. A step's send goes to the lane's copy stream:
//
//	wait until the piece is folded; wait until the slot is free; copy; set the slot's arrived word on the next rank
//
// and its receive to the lane's fold stream:
//
//	wait for the arrived word; reduce or copy out of the slot; set the free word on the rank before; record the fold
//
// A piece that is sent must not change before it is copied. In a ring all-reduce what comes to take its place has passed
// all ranks, and so was sent by the next one after it had got the piece; no wait is needed.
type ringRun struct {
	*backend
	t        cuda.Thread
	in, out  cuda.Pointer
	bytes    int
	fold     cuda.Function
	grid     cuda.Grid
	divisor  uint32
	sent     [lanes]int
	received [lanes]int
}

// ringAllReduce moves 2(n-1)/n of the bytes out of every rank, by copy engines. The order of a sum is that of package
// ring.
func (b *backend) ringAllReduce(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	r, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), kernels.LocalFamily)
	if err != nil {
		return err
	}
	if err := b.makeRing(ctx, t); err != nil {
		return err
	}
	run := &ringRun{backend: b, t: t, in: o.in, out: o.out, bytes: o.bytes, fold: r.two.Function,
		grid: cuda.Grid{Blocks: uint32(o.choice.Blocks), Threads: uint32(o.choice.Threads)}, divisor: b.divisor(o.Op)}
	chunk := b.layout.ringSlot
	if o.choice.Tile > 0 {
		chunk = min(chunk, up(o.choice.Tile, ringUnit))
	}
	p, err := ring.AllReduce(plan.Shape{Coll: plan.AllReduce, Rank: b.rank, Size: b.size, Elem: ringUnit, Lanes: lanes,
		Count: (run.bytes + ringUnit - 1) / ringUnit, Chunk: chunk / ringUnit})
	if err != nil {
		return err
	}
	return run.enqueue(p, s)
}

// makeRing makes the streams of rings, on all ranks together.
func (b *backend) makeRing(ctx context.Context, t cuda.Thread) error {
	if b.streams.folds[lanes-1].made {
		return nil
	}
	return b.together(ctx, func() error {
		var errs []error
		for i := range lanes {
			errs = append(errs, b.streams.copies[i].make(t), b.streams.folds[i].make(t))
		}
		return errors.Join(errs...)
	})
}

// enqueue puts all lanes' steps on their streams, between what is on s now and what will be.
func (r *ringRun) enqueue(p *plan.Plan, s cuda.Stream) error {
	for lane := range lanes {
		c, f := &r.streams.copies[lane], &r.streams.folds[lane]
		if err := errors.Join(follow(r.t, c.stream, s, c.event), follow(r.t, f.stream, s, f.event)); err != nil {
			return err
		}
	}
	for i, more := 0, true; more; i++ {
		more = false
		for lane, steps := range p.Lanes {
			if i >= len(steps) {
				continue
			}
			more = true
			if err := r.step(lane, &steps[i]); err != nil {
				return err
			}
		}
	}
	for lane := range lanes {
		if err := r.finish(lane, s); err != nil {
			return err
		}
	}
	return nil
}

// step enqueues one step of a lane.
func (r *ringRun) step(lane int, st *plan.Step) error {
	if st.To != plan.None {
		if err := r.send(lane, st); err != nil {
			return err
		}
	}
	if st.From != plan.None {
		if err := r.receive(lane, st); err != nil {
			return err
		}
	}
	return r.weigh(r.t, r.streams.folds[lane].stream, stepCommands)
}

func (r *ringRun) send(lane int, st *plan.Step) error {
	t, s := r.t, r.streams.copies[lane].stream
	data, arrived, free := r.layout.ringAt(lane, r.sent[lane]%ringSlots)
	r.sent[lane]++
	src, n := r.at(st.Src)
	next := r.peers[st.To].at
	if st.Src.Buf == plan.Out {
		if err := t.WaitEvent(s, r.streams.folds[lane].event); err != nil {
			return err
		}
	}
	return first(
		t.Wait32(s, r.heap+cuda.Pointer(free), 1),
		t.Write32(s, r.heap+cuda.Pointer(free), 0),
		t.Copy(next+cuda.Pointer(data), src, n, s),
		t.Write32(s, next+cuda.Pointer(arrived), 1))
}

func (r *ringRun) receive(lane int, st *plan.Step) error {
	t, f := r.t, &r.streams.folds[lane]
	data, arrived, free := r.layout.ringAt(lane, r.received[lane]%ringSlots)
	r.received[lane]++
	slot := r.heap + cuda.Pointer(data)
	if err := first(t.Wait32(f.stream, r.heap+cuda.Pointer(arrived), 1),
		t.Write32(f.stream, r.heap+cuda.Pointer(arrived), 0)); err != nil {
		return err
	}
	if err := r.take(st, slot, f.stream); err != nil {
		return err
	}
	return first(t.Write32(f.stream, r.peers[st.From].at+cuda.Pointer(free), 1), t.Record(f.event, f.stream))
}

// take reduces or copies what is in a slot to where the step wants it.
func (r *ringRun) take(st *plan.Step, slot cuda.Pointer, s cuda.Stream) error {
	dst, n := r.at(st.Dst)
	if !st.Reduce {
		c := &r.args.copy
		*c = kernels.CopyArgs{Out: uint64(dst), In: uint64(slot), Bytes: uint64(n)}
		return r.t.Launch(r.code.move.copy.Function, r.grid, unsafe.Pointer(c), s)
	}
	acc, _ := r.at(st.Acc)
	a := &r.args.reduce
	a.Out, a.In[0], a.In[1], a.Bytes, a.Divisor = uint64(dst), uint64(acc), uint64(slot), uint64(n), 0
	if st.Last {
		a.Divisor = r.divisor
	}
	return r.t.Launch(r.fold, r.grid, unsafe.Pointer(a), s)
}

// finish makes s wait for a lane: for its folds, and until the next rank has emptied the slots, so that no peer writes
// here for an operation that is over.
func (r *ringRun) finish(lane int, s cuda.Stream) error {
	c, f := &r.streams.copies[lane], &r.streams.folds[lane]
	for i := range min(r.sent[lane], ringSlots) {
		_, _, free := r.layout.ringAt(lane, i)
		if err := r.t.Wait32(c.stream, r.heap+cuda.Pointer(free), 1); err != nil {
			return err
		}
	}
	return first(follow(r.t, s, c.stream, c.event), follow(r.t, s, f.stream, f.event))
}

// at returns where a span lies, and its bytes.
func (r *ringRun) at(s plan.Span) (cuda.Pointer, int) {
	base := r.out
	if s.Buf == plan.In {
		base = r.in
	}
	from, to := s.Off*ringUnit, min((s.Off+s.Len)*ringUnit, r.bytes)
	return base + cuda.Pointer(from), to - from
}

// first returns the first error of calls that were made one after the other.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
