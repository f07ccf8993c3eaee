package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// copyRing carries out a plan of package ring. Copy engines bring slices to a slot of the next rank, whose kernels fold them,
// or copy them, to where they belong. All is enqueued at once, on four streams beside the caller's.
//
//	copy    wait until the slice may go; copy it; record that
//	signal  wait until it is copied; set arrived on the receiver
//	gate    wait until the slice is folded; wait for free; reset it; record that the slice may go
//	fold    wait for arrived; fold; record that; reset arrived; set free on the next sender
//
// An engine does nothing for 5 µs between two copies, whatever streams they are on. It idles as long again if a stream writes
// or waits for a word in between. If a stream waits for an event, it idles 1 µs more. So words are kept off the copy stream,
// and slices are as large as slots. (1 GiB on two H200 took 2,916 µs in slices of 32 MiB and 2,889 in slices of 44.)
//
// A send needs nothing of the receives after it on any rank. So the commands could also run one by one, in the order in which
// they are enqueued. Streams that share a queue of the hardware make a ring slow at most.
//
// Lanes. They are enqueued in rotation: step i of all lanes, then step i+1. A lane is one slice that goes round, and two of
// them are enough. While slice k of a step is on its way, slice k-1 is folded. So slice k-1 may go on when the engine is done
// with slice k.
//
// Slots. Slices go to slot 0 and 1 alternately, on all ranks alike: a rank's q-th send is its peer's q-th receive. (In a ring
// there is one link each way; an exchange in rotation has blocks of one length.) Slices 0 and 1 need no leave. For slice q+2
// its sender gets leave from the receiver when slice q is folded; when no such slice follows, nothing is said. So as many
// words are set as are waited for. Each is reset before its next setter has leave to set it. All are 0 when the ring is over,
// and a replayed graph begins where the first run did.
//
// Tiles and sentinel memory. The slots lie over them (Layout of package symheap). A ring begins with a meeting of all ranks on the
// caller's stream, and ends with one. The first says that every rank has ended all that it had enqueued before. Writes into a
// heap are awaited by operations of its owner (invariant 2 of the package). So after it no kernel reads or writes tiles or
// sentinel memory anywhere, and no slot is filled before.
//
// The last meeting comes on each rank after its fold and its signal stream. Its slots are emptied, and their part that lies
// over sentinel memory holds sentinels again. Its copies have landed, and were folded before the receiver came to the meeting.
// So no kernel after it meets a slot.
//
// The end. When the engines are done, the last slices are still to be copied out. So a long last slice goes in two, a short
// end behind the rest, and sentinels are filled in meanwhile. The end goes when the rest went: it counts as a lane of its own.
//
// Tensors. A slice that is sent must not change before it is copied. In a ring the slice that takes its place has passed all
// ranks. So the next rank sent it after it had got the slice, and no wait is needed. Inputs are only read.
type copyRing struct {
	*launcher
	t       cuda.Thread
	in, out region
	fold    cuda.Function
	grid    cuda.Grid
	divisor uint32
	senders []int // of all slices that are received, in order

	sent, received int
	folded         [ringLanes + 1]int // by lane: how many had been received at its last fold in this ring, 0 if there was none
	second         int                // bytes of the longest slice that the second slot had
	secondLane     int                // of the last slice there
}

// stepCommands is about how many commands a step enqueues on the stream that gets most of them.
const stepCommands = 6

// ringStep is a step with its lane.
type ringStep struct {
	lane int
	plan.Step
}

// interleaved returns the steps of all lanes in the order in which they are enqueued. Copies on the own device are left out.
func interleaved(p *plan.Plan) (all []ringStep) {
	for i, more := 0, true; more; i++ {
		more = false
		for lane, steps := range p.Lanes {
			if i >= len(steps) {
				continue
			}
			more = true
			if !steps[i].Local(p.Shape.Rank) {
				all = append(all, ringStep{lane, steps[i]})
			}
		}
	}
	return all
}

// run carries out a plan between two meetings.
func (r *copyRing) run(p *plan.Plan, o *operation) error {
	if err := r.meet(r.t, o.s); err != nil {
		return err
	}
	if err := r.enqueue(p, o.s); err != nil {
		return err
	}
	return r.finish(o.s)
}

// enqueue puts a plan on the streams, behind the meeting of the ranks on s.
func (r *copyRing) enqueue(p *plan.Plan, s cuda.Stream) error {
	all, sends := shortEnd(interleaved(p)), 0
	r.engines.around = p.Shape.Coll != plan.AllToAll
	for i := range all {
		st := &all[i]
		if _, n := r.at(st.Src); n <= 0 {
			st.To = plan.None
		}
		if _, n := r.at(st.Dst); n <= 0 {
			st.From = plan.None
		}
		if st.To != plan.None {
			sends++
		}
		if st.From != plan.None {
			r.senders = append(r.senders, st.From)
		}
	}
	if err := r.begin(sends, s); err != nil {
		return err
	}
	for _, st := range all {
		if err := r.step(st); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the streams that will have something to do wait for s. In a capture nothing would bring the others back.
func (r *copyRing) begin(sends int, s cuda.Stream) error {
	if err := r.code.markDirty(r.t, s); err != nil {
		return err
	}
	x, c := &r.engines, streamorder.On(r.t)
	e := x.copy.Event
	c.Record(e, s)
	if sends > 0 {
		c.WaitEvent(x.copy.Stream, e)
	}
	if sends > symheap.RingSlots {
		c.WaitEvent(x.gate.Stream, e)
	}
	if len(r.senders) > 0 {
		c.WaitEvent(x.fold.Stream, e)
	}
	return c.Err
}

func (r *copyRing) step(st ringStep) error {
	var last *streamorder.Stream
	if st.To != plan.None {
		if err := r.send(st); err != nil {
			return err
		}
		last = &r.engines.signal
	}
	if st.From != plan.None {
		if err := r.receive(st); err != nil {
			return err
		}
		last = &r.engines.fold
	}
	if last == nil {
		return nil
	}
	return r.order.Throttle(r.t, last.Stream, stepCommands)
}

// send has a slice copied to the next slot of a rank.
func (r *copyRing) send(st ringStep) error {
	x := &r.engines
	data, arrived, _ := r.layout.RingAt(st.To, r.sent%symheap.RingSlots)
	if err := r.pass(st); err != nil {
		return err
	}
	r.sent++
	src, n := r.at(st.Src)
	c := streamorder.On(r.t)
	c.Copy(r.heap.PeerAddress(st.To, data), src, n, x.copy.Stream)
	c.Follow(x.signal.Stream, x.copy.Stream, x.copy.Event)
	c.Write32(x.signal.Stream, r.heap.PeerAddress(st.To, arrived), 1)
	return c.Err
}

// pass has the copy stream wait until a slice may go. A slice that was not there from the beginning must be folded, and its
// slot must be free.
func (r *copyRing) pass(st ringStep) error {
	x, c := &r.engines, streamorder.On(r.t)
	made := st.Src.Buf == plan.Out && r.folded[st.lane] > 0
	if r.sent < symheap.RingSlots {
		if made {
			c.WaitEvent(x.copy.Stream, x.folded[st.lane])
		}
		return c.Err
	}
	if made {
		c.WaitEvent(x.gate.Stream, x.folded[st.lane])
	}
	_, _, at := r.layout.RingAt(st.To, r.sent%symheap.RingSlots)
	free := r.heap.Address(at)
	c.Wait32(x.gate.Stream, free, 1)
	c.Write32(x.gate.Stream, free, 0)
	c.Follow(x.copy.Stream, x.gate.Stream, x.gate.Event)
	return c.Err
}

// receive has the next slot emptied, and tells the rank that is to fill it again.
func (r *copyRing) receive(st ringStep) error {
	s, c := r.engines.fold.Stream, streamorder.On(r.t)
	data, at, free := r.layout.RingAt(r.rank, r.received%symheap.RingSlots)
	arrived := r.heap.Address(at)
	c.Wait32(s, arrived, 1)
	c.Do(func() error { return r.take(&st.Step, r.heap.Address(data), s) })
	c.Record(r.engines.folded[st.lane], s)
	c.Write32(s, arrived, 0)
	if next := r.received + symheap.RingSlots; next < len(r.senders) {
		c.Write32(s, r.heap.PeerAddress(r.senders[next], free), 1)
	}
	if c.Err != nil {
		return c.Err
	}
	if r.received%symheap.RingSlots == 1 {
		_, n := r.at(st.Dst)
		r.second, r.secondLane = max(r.second, n), st.lane
	}
	r.received++
	r.folded[st.lane] = r.received
	return nil
}

// take reduces or copies the slice in a slot to the place that the step names.
func (r *copyRing) take(st *plan.Step, slot cuda.Pointer, s cuda.Stream) error {
	dst, n := r.at(st.Dst)
	if !st.Reduce {
		a := &r.args.copy
		*a = ptx.CopyArgs{Out: uint64(dst), In: uint64(slot), Bytes: uint64(n)}
		return r.t.Launch(r.code.move(copyBytes).Function, r.grid, unsafe.Pointer(a), s)
	}
	acc, _ := r.at(st.Acc)
	a := &r.args.reduce
	a.Out, a.In[0], a.In[1], a.Bytes, a.Divisor, a.Sums, a.Partial = uint64(dst), uint64(acc), uint64(slot), uint64(n), r.divisor, 1, 1
	if st.Src.Buf == plan.In { // the ranks of a ring send their input in the same step
		a.Sums = 0
	}
	if st.Last {
		a.Partial = 0
	}
	return r.t.Launch(r.fold, r.grid, unsafe.Pointer(a), s)
}

// finish makes s wait for the ring, and has the ranks meet there. The copy and the gate stream go before the signal stream, so
// s need not wait for them.
func (r *copyRing) finish(s cuda.Stream) error {
	x, c := &r.engines, streamorder.On(r.t)
	if over := r.layout.OverSentinel(r.second); over > 0 {
		c.WaitEvent(s, x.folded[r.secondLane])
		c.Do(func() error { return r.heap.FillSentinel(r.t, r.layout.Sentinel, over, s) })
	}
	if r.received > 0 {
		c.Follow(s, x.fold.Stream, x.fold.Event)
	}
	if r.sent > 0 {
		c.Follow(s, x.signal.Stream, x.signal.Event)
	}
	c.Do(func() error { return r.meet(r.t, s) })
	return c.Err
}

// region is a tensor, or the parts of one, as a plan sees it: stretches of memory that each begin with a unit.
type region []part

type part struct {
	at          cuda.Pointer
	unit, bytes int // the first unit, and the length
}

func (r *copyRing) at(s plan.Span) (cuda.Pointer, int) {
	if s.Buf == plan.In {
		return r.in.at(s)
	}
	return r.out.at(s)
}

// at returns where a span lies, and its bytes. It is within one part.
func (r region) at(s plan.Span) (cuda.Pointer, int) {
	i := len(r) - 1
	for r[i].unit > s.Off {
		i--
	}
	from, to := (s.Off-r[i].unit)*ringUnit, min((s.Off-r[i].unit+s.Len)*ringUnit, r[i].bytes)
	return r[i].at + cuda.Pointer(from), to - from
}
