package peer

import (
	"context"
	"errors"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// A ring carries out a plan of package ring: copy engines bring slices to a slot of the next rank, whose kernels fold them,
// or copy them, to where they belong. All is enqueued at once, on four streams beside the caller's.
//
//	copy    wait until the slice may go; copy it; record that
//	signal  wait until it is copied; set arrived on the receiver
//	gate    wait until the slice is folded; wait for free; reset it; record that the slice may go
//	fold    wait for arrived; fold; record that; reset arrived; set free on the next sender
//
// An engine does nothing for 5 µs between two copies, whatever streams they are on, for as long again if a stream writes or waits
// for a word in between, and for 1 µs more if it waits for an event. So words are kept off the copy stream, and slices are as
// large as slots (1 GiB on two H200, by bench -tune -try "copy-ring 64x512 32Mi,copy-ring 64x512 44Mi": 2,916 and 2,889 µs).
//
// What is enqueued could also run one by one, in that order, for a send needs nothing of the receives after it on any
// rank. So streams that share a queue of the hardware make it slow at most.
//
// The lanes of a plan take turns: step i of all lanes, then step i+1. A lane is one slice that goes round, and two of them are
// enough: while slice k of a step is on its way, slice k-1 is folded, and so may go on when the engine is done with k.
//
// Slots. Slices go to slot 0 and 1 in turns, on all ranks alike: a rank's q-th send is its peer's q-th receive. (In a ring
// there is one link each way; an exchange in rotation has blocks of one length.) Slices 0 and 1 need no leave. For slice q+2
// its sender gets it from the receiver when slice q is folded; when no such slice follows, nothing is said. So as many
// words are set as are waited for, each is reset before whoever sets it next has leave to, and all are 0 when the ring is
// over: a replayed graph begins where the first run did.
//
// Tiles and lines. The slots lie over them (layout.go). A ring begins with a meeting of all ranks on the caller's stream, and
// ends with one. The first says that every rank has ended all that it had enqueued before. Writes into a symmetric heap are awaited by
// operations of its owner (invariant 2 of the package), so after it no kernel reads or writes tiles or lines anywhere, and no
// slot is filled before. The last one comes on each rank after its fold and its signal stream: its slots are emptied, what
// of them lies over lines is cleared again, and what it copied has landed, and was folded before the receiver came to the
// meeting. So no kernel after it meets a slot.
//
// The end. When the engines are done, what came last is still to be copied out. So a long last slice goes in two, a short end
// behind the rest, and lines are cleared meanwhile. The end goes when the rest went: it counts as a lane of its own.
//
// Tensors. A slice that is sent must not change before it is copied. In a ring what comes to take its place has passed all
// ranks, and so was sent by the next one after it had got the slice; no wait is needed. Inputs are only read.
type copyRing struct {
	*backend
	t       cuda.Thread
	in, out region
	fold    cuda.Function
	grid    cuda.Grid
	divisor uint32
	senders []int // of all that is received, in order

	sent, received int
	folded         [ringLanes + 1]int // by lane: how many had been received at its last fold in this ring, 0 if there was none
	second         int                // bytes of the longest slice that the second slot had
	secondLane     int                // of the last slice there
}

// ringUnit is what the plan of a ring takes for an element, in bytes, so that slices begin at good addresses. The last
// unit of a tensor may be short.
const ringUnit = 4 << 10

// leastPart is the smallest part that a ring can cut in two slices.
const leastPart = 2 * ringUnit

// stepCommands is about how many commands a step enqueues on the stream that gets most of them.
const stepCommands = 6

// ringStreams are those of rings.
type ringStreams struct {
	copy, signal, gate, fold lazyStream

	folded [ringLanes + 1]cuda.Event // of each lane's last fold, and of a short end's
	around bool                      // all slices of the last ring came from the rank before
}

// make makes what rings need, on all ranks together.
func (b *backend) makeCopyRing(ctx context.Context, t cuda.Thread) error {
	s := &b.streams.ring
	if s.fold.made {
		return nil
	}
	return b.together(ctx, func() error {
		return relaxed(t, func() error { return s.make(t) })
	})
}

func (s *ringStreams) make(t cuda.Thread) error {
	var errs []error
	for i := range s.folded {
		var err error
		s.folded[i], err = t.NewEvent(false)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.copy.make(t), s.signal.make(t), s.gate.make(t), s.fold.make(t))...)
}

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

// enqueue puts a plan on the streams, behind what is on s now, where the ranks have met.
func (r *copyRing) enqueue(p *plan.Plan, s cuda.Stream) error {
	all, sends, streams := shortEnd(interleaved(p)), 0, &r.streams.ring
	streams.around = p.Shape.Coll != plan.AllToAll
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
	streams := &r.streams.ring
	e := streams.copy.event
	err := first(r.code.markDirty(r.t, s), r.t.Record(e, s))
	if sends > 0 && err == nil {
		err = r.t.WaitEvent(streams.copy.stream, e)
	}
	if sends > ringSlots && err == nil {
		err = r.t.WaitEvent(streams.gate.stream, e)
	}
	if len(r.senders) > 0 && err == nil {
		err = r.t.WaitEvent(streams.fold.stream, e)
	}
	return err
}

func (r *copyRing) step(st ringStep) error {
	var last *lazyStream
	if st.To != plan.None {
		if err := r.send(st); err != nil {
			return err
		}
		last = &r.streams.ring.signal
	}
	if st.From != plan.None {
		if err := r.receive(st); err != nil {
			return err
		}
		last = &r.streams.ring.fold
	}
	if last == nil {
		return nil
	}
	return r.weigh(r.t, last.stream, stepCommands)
}

// send has a slice copied to the next slot of a rank.
func (r *copyRing) send(st ringStep) error {
	t, s := r.t, &r.streams.ring
	data, arrived, _ := r.layout.ringAt(st.To, r.sent%ringSlots)
	if err := r.pass(st); err != nil {
		return err
	}
	r.sent++
	src, n := r.at(st.Src)
	peer := r.peers[st.To].at
	return first(
		t.Copy(peer+cuda.Pointer(data), src, n, s.copy.stream),
		follow(t, s.signal.stream, s.copy.stream, s.copy.event),
		t.Write32(s.signal.stream, peer+cuda.Pointer(arrived), 1))
}

// pass has the copy stream wait until a slice may go: it is folded, if it was not there from the beginning, and its slot is
// free.
func (r *copyRing) pass(st ringStep) error {
	t, s := r.t, &r.streams.ring
	made := st.Src.Buf == plan.Out && r.folded[st.lane] > 0
	if r.sent < ringSlots {
		if made {
			return t.WaitEvent(s.copy.stream, s.folded[st.lane])
		}
		return nil
	}
	if made {
		if err := t.WaitEvent(s.gate.stream, s.folded[st.lane]); err != nil {
			return err
		}
	}
	_, _, at := r.layout.ringAt(st.To, r.sent%ringSlots)
	free := r.heap + cuda.Pointer(at)
	return first(t.Wait32(s.gate.stream, free, 1), t.Write32(s.gate.stream, free, 0),
		follow(t, s.copy.stream, s.gate.stream, s.gate.event))
}

// receive has the next slot emptied, and the rank told that is to fill it again.
func (r *copyRing) receive(st ringStep) error {
	t, s := r.t, r.streams.ring.fold.stream
	data, at, free := r.layout.ringAt(r.rank, r.received%ringSlots)
	arrived := r.heap + cuda.Pointer(at)
	if err := first(t.Wait32(s, arrived, 1), r.take(&st.Step, r.heap+cuda.Pointer(data), s),
		t.Record(r.streams.ring.folded[st.lane], s), t.Write32(s, arrived, 0)); err != nil {
		return err
	}
	if next := r.received + ringSlots; next < len(r.senders) {
		if err := t.Write32(s, r.peers[r.senders[next]].at+cuda.Pointer(free), 1); err != nil {
			return err
		}
	}
	if r.received%ringSlots == 1 {
		_, n := r.at(st.Dst)
		r.second, r.secondLane = max(r.second, n), st.lane
	}
	r.received++
	r.folded[st.lane] = r.received
	return nil
}

// take reduces or copies what is in a slot to where the step wants it.
func (r *copyRing) take(st *plan.Step, slot cuda.Pointer, s cuda.Stream) error {
	dst, n := r.at(st.Dst)
	if !st.Reduce {
		c := &r.args.copy
		*c = ptx.CopyArgs{Out: uint64(dst), In: uint64(slot), Bytes: uint64(n)}
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

// finish makes s wait for the ring, and has the ranks meet there. What is on the copy and the gate stream goes before what
// is on the signal stream.
func (r *copyRing) finish(s cuda.Stream) error {
	fold, signal := &r.streams.ring.fold, &r.streams.ring.signal
	if over := r.layout.overSentinel(r.second); over > 0 {
		if err := first(r.t.WaitEvent(s, r.streams.ring.folded[r.secondLane]), r.fillSentinel(r.t, r.layout.sentinel, over, s)); err != nil {
			return err
		}
	}
	if r.received > 0 {
		if err := follow(r.t, s, fold.stream, fold.event); err != nil {
			return err
		}
	}
	if r.sent > 0 {
		if err := follow(r.t, s, signal.stream, signal.event); err != nil {
			return err
		}
	}
	return r.meetPeers(r.t, s)
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

// units returns how many units some bytes begin.
func units(bytes int) int { return (bytes + ringUnit - 1) / ringUnit }

// first returns the first error of calls that were made one after the other.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
