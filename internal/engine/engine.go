// Package engine advances one rank through a plan on the CPU. It is a state machine: Advance does whatever can be done now,
// moves and reduces bytes through a Port and a Kernel, and returns. The caller decides when to look again.
//
// Invariants:
//
//  1. Nothing here waits, and after Start nothing is allocated that an earlier run of the same size did not need.
//  2. Steps of a lane run in order. The sending and the receiving half of a step advance independently (the exchange rule
//     of package plan).
//  3. Arriving bytes are reduced straight from the link's memory into their place, or received into their place.
//  4. While a lane waits for bytes, small sends of its next steps run ahead, in order, and long ones where the port is Eager. None
//     depends on bytes still to come. No plan needs that (the exchange rule), but ranks that share cores then need fewer turns.
//  5. A step's bytes travel in as many frames as the link needs. The receiver takes frames of any size, but never more bytes
//     than its step has, and never part of an element.
package engine

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// Port moves the frames of one operation. Its methods do not block; their errors end the run.
type Port interface {
	// Send offers the next frame of a step of total bytes; false means not now.
	Send(peer, lane, step, total int, p []byte) (bool, error)
	// Arrived returns the payload bytes of the next frame, -1 if there is none yet, and the total of the sender's step.
	Arrived(peer, lane int) (n, total int, err error)
	// Body returns the payload that Arrived told of, in dst if that is not nil; false means not in full yet.
	Body(peer, lane int, dst []byte) ([]byte, bool, error)
	// Release ends the use of the payload.
	Release(peer, lane int)
	// MaxFrame returns the most bytes of one frame to a peer, a multiple of every element size.
	MaxFrame(peer int) int
}

// Eager is a Port on which long sends run ahead, too. Its peers have room for what it takes, so a long send keeps nothing else back.
type Eager interface {
	// Ahead returns the most bytes of a send that runs ahead.
	Ahead() int
}

// Kernel reduces elements. Slices have equal lengths, whole elements.
type Kernel interface {
	Reduce(dst, a, b []byte)           // dst = a op b
	Finish(dst, src []byte, ranks int) // dst = the finished reduction src
	Scale(dst, src []byte, factor float64)
}

// Run is one rank's way through one plan. The zero value is ready for Start, and a Run is used again and again.
type Run struct {
	plan   *plan.Plan
	port   Port
	kernel Kernel
	bufs   [3][]byte
	lanes  []cursor
	left   int // lanes not at their end
	eager  int // most bytes of a send that runs ahead

	weight float64 // what is read of the input is multiplied by it; 0 is as good as 1
	block  []byte  // of scaled input on its way into a reduction
}

// cursor is how far a lane has come.
type cursor struct {
	step      int
	sent, got int    // bytes of the step
	scaled    []byte // memory for a frame of scaled input
	held      int    // bytes of the frame in it that has not been taken
	out, in   bool   // the sending, the receiving half is over
	ahead     int    // so many of the next steps have nothing left to send
	alone     bool   // no further step can send before this one is over
}

// Error says at which step of which lane a run failed, and which peer the step was about.
type Error struct {
	Peer, Lane, Step int
	Err              error
}

// Error says it on one line.
func (e *Error) Error() string {
	return fmt.Sprintf("peer %d, lane %d, step %d: %v", e.Peer, e.Lane, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Start begins plan p on the given buffers, in bytes; they may be longer than the plan needs. In and out may be the same
// memory where plan allows it. The kernel may be nil if the plan does not reduce.
func (r *Run) Start(p *plan.Plan, port Port, k Kernel, in, out, scratch []byte) {
	r.plan, r.port, r.kernel = p, port, k
	r.eager = aheadBytes
	if e, ok := port.(Eager); ok {
		r.eager = e.Ahead()
	}
	r.bufs[plan.In], r.bufs[plan.Out], r.bufs[plan.Scratch] = in, out, scratch
	if cap(r.lanes) < len(p.Lanes) {
		// Whole cache lines, in pairs as the CPU fetches them: ranks of one process must not write to each other's.
		r.lanes = make([]cursor, len(p.Lanes), (len(p.Lanes)+3)&^3)
	}
	r.lanes = r.lanes[:len(p.Lanes)]
	r.left = 0
	for l := range r.lanes {
		r.lanes[l].at(0)
		if len(p.Lanes[l]) > 0 {
			r.left++
			r.begin(l)
		}
	}
}

// Weigh has all that is read of the input multiplied by a factor on the way, as Kernel.Scale does. The input itself stays as it is,
// unless it is the output. It is called between Start and the first Advance, and the plan reads no part of the input twice.
func (r *Run) Weigh(factor float64) { r.weight = factor }

// Reset drops the references to buffers and plan.
func (r *Run) Reset() {
	r.plan, r.port, r.kernel = nil, nil, nil
	r.bufs[plan.In], r.bufs[plan.Out], r.bufs[plan.Scratch] = nil, nil, nil
	r.lanes, r.left, r.eager, r.weight = r.lanes[:0], 0, 0, 0
}

// Done reports whether every step of every lane is over.
func (r *Run) Done() bool { return r.left == 0 }

// Waiting returns the peers that the lanes' steps wait for, once each and in ascending order.
func (r *Run) Waiting() (peers []int) {
	add := func(peer int) {
		if i, found := slices.BinarySearch(peers, peer); !found {
			peers = slices.Insert(peers, i, peer)
		}
	}
	for l := range r.lanes {
		c := &r.lanes[l]
		if c.step == len(r.plan.Lanes[l]) {
			continue
		}
		s := &r.plan.Lanes[l][c.step]
		if !c.in {
			add(s.From)
		}
		if !c.out {
			add(s.To)
		}
	}
	return peers
}

// Advance does what can be done now. It reports whether anything moved.
func (r *Run) Advance() (moved bool, err error) {
	for l := range r.lanes {
		for r.lanes[l].step < len(r.plan.Lanes[l]) {
			m, over, err := r.step(l)
			moved = moved || m
			if err != nil {
				return moved, err
			}
			if !over {
				break
			}
			r.next(l)
		}
	}
	return moved, nil
}

// next goes to the following step of lane l.
func (r *Run) next(l int) {
	c := &r.lanes[l]
	ahead := c.ahead
	c.at(c.step + 1)
	if c.step == len(r.plan.Lanes[l]) {
		r.left--
		return
	}
	r.begin(l)
	if ahead > 0 {
		c.ahead, c.out, c.sent = ahead-1, true, r.plan.Lanes[l][c.step].Src.Len*r.plan.Shape.Elem
	}
}

// at makes c the cursor at a step of which nothing is done. It keeps the memory. Field by field: a struct of this size that is assigned
// as a whole is made elsewhere first.
func (c *cursor) at(step int) {
	c.step, c.sent, c.got, c.held = step, 0, 0, 0
	c.out, c.in, c.alone, c.ahead = false, false, false, 0
}

func (r *Run) begin(l int) {
	c := &r.lanes[l]
	s := &r.plan.Lanes[l][c.step]
	c.out, c.in = s.To == plan.None, s.From == plan.None
}

// step advances the current step of lane l. It reports whether anything moved and whether the step is over.
func (r *Run) step(l int) (moved, over bool, err error) {
	c := &r.lanes[l]
	s := &r.plan.Lanes[l][c.step]
	if s.From == r.plan.Shape.Rank {
		r.local(s)
		return true, true, nil
	}
	if !c.out {
		if moved, err = r.send(l, c, s); err != nil {
			return moved, false, &Error{s.To, l, c.step, err}
		}
	}
	if !c.in {
		m, err := r.receive(l, c, s)
		moved = moved || m
		if err != nil {
			return moved, false, &Error{s.From, l, c.step, err}
		}
	}
	if c.out && !c.in && !c.alone {
		m, err := r.sendAhead(l, c)
		return moved || m, false, err
	}
	return moved, c.out && c.in, nil
}

// Sends run ahead by so many steps, and if they are of so many bytes at most, unless the port is Eager. More would fill the links and
// the cache. Scaled frames take memory, so none of them is longer.
const (
	aheadBytes = 16 << 10
	aheadSteps = 64
)

// sendAhead sends what the steps after that of the cursor have to send. A frame without bytes says that its rank has come so far,
// as in a barrier: it waits for its turn, unless the plan Starts.
func (r *Run) sendAhead(l int, c *cursor) (moved bool, err error) {
	steps := r.plan.Lanes[l]
	for at := c.step + 1 + c.ahead; ; at++ {
		if at == len(steps) || c.ahead == aheadSteps {
			c.alone = true
			return moved, nil
		}
		if s := &steps[at]; s.To != plan.None {
			src := r.bytes(s.Src)
			scaled := r.weighs(s.Src)
			if c.alone = len(src) == 0 && !r.plan.Starts || len(src) > r.mostAhead(s.To, scaled) || r.awaits(src, steps[c.step:at]); c.alone {
				return moved, nil
			}
			if scaled {
				src = r.scaledFrame(c, src)
			}
			ok, err := r.port.Send(s.To, l, at, len(src), src)
			if err != nil {
				return moved, &Error{s.To, l, at, err}
			}
			if !ok {
				return moved, nil
			}
			moved, c.held = true, 0
		}
		c.ahead++
	}
}

// mostAhead returns the most bytes of a send to a peer that runs ahead.
func (r *Run) mostAhead(peer int, scaled bool) int {
	most := r.eager
	if scaled {
		most = min(most, aheadBytes)
	}
	return min(most, r.port.MaxFrame(peer))
}

// awaits reports whether memory is written by steps that are not over.
func (r *Run) awaits(p []byte, steps []plan.Step) bool {
	for i := range steps {
		if s := &steps[i]; s.From != plan.None && overlap(p, r.bytes(s.Dst)) {
			return true
		}
	}
	return false
}

// overlap reports whether two slices share memory.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

func (r *Run) send(l int, c *cursor, s *plan.Step) (moved bool, err error) {
	src := r.bytes(s.Src)
	limit := r.port.MaxFrame(s.To)
	for {
		p := src[c.sent:]
		if len(p) > limit {
			p = p[:limit]
		}
		if r.weighs(s.Src) {
			p = r.scaledFrame(c, p[:min(len(p), scaledBytes)])
		}
		ok, err := r.port.Send(s.To, l, c.step, len(src), p)
		if err != nil || !ok {
			return moved, err
		}
		moved, c.held = true, 0
		if c.sent += len(p); c.sent == len(src) {
			c.out = true
			return true, nil
		}
	}
}

func (r *Run) receive(l int, c *cursor, s *plan.Step) (moved bool, err error) {
	dst := r.bytes(s.Dst)
	for {
		n, total, err := r.port.Arrived(s.From, l)
		if err != nil || n < 0 {
			return moved, err
		}
		if err := r.fits(n, total, len(dst), c.got); err != nil {
			return moved, err
		}
		ok, err := r.take(l, c, s, dst[c.got:c.got+n])
		if err != nil || !ok {
			return moved, err
		}
		r.port.Release(s.From, l)
		moved = true
		if c.got += n; c.got == len(dst) {
			c.in = true
			return true, nil
		}
	}
}

// fits says what is wrong with a frame of n bytes of a step of total bytes. This rank's step has size bytes, of which got
// have arrived. A step of another length means that the ranks called something else. Any other fault means that bytes were
// lost.
func (r *Run) fits(n, total, size, got int) error {
	if total != size {
		return fmt.Errorf("%w: the peer's step has %d bytes, this rank's %d", colligo.ErrMismatch, total, size)
	}
	if n == size && got == 0 {
		return nil // the whole step, as short ones come
	}
	if n > size-got || n%r.plan.Shape.Elem != 0 || n == 0 && size > 0 {
		return fmt.Errorf("%w: a frame of %d bytes, %d of %d bytes still to come", colligo.ErrCorrupt, n, size-got, size)
	}
	return nil
}

// take brings one arrived payload to dst, reduced or as it is.
func (r *Run) take(l int, c *cursor, s *plan.Step, dst []byte) (bool, error) {
	if !s.Reduce {
		_, ok, err := r.port.Body(s.From, l, dst)
		return ok, err
	}
	body, ok, err := r.port.Body(s.From, l, nil)
	if err != nil || !ok {
		return false, err
	}
	acc := r.bytes(s.Acc)[c.got:]
	r.reduce(s, dst, acc[:len(dst)], body)
	return true, nil
}

func (r *Run) local(s *plan.Step) {
	dst, src := r.bytes(s.Dst), r.bytes(s.Src)
	switch {
	case s.Reduce && r.weighs(s.Src): // the sum that it is added to is no input
		r.reduceScaled(dst, src, r.bytes(s.Acc))
		r.finish(s, dst)
	case s.Reduce:
		r.reduce(s, dst, r.bytes(s.Acc), src)
	case r.weighs(s.Src):
		r.kernel.Scale(dst, src, r.weight)
	default:
		copy(dst, src) // which does nothing where both are the same memory
	}
}

func (r *Run) reduce(s *plan.Step, dst, acc, arrived []byte) {
	if r.weighs(s.Acc) {
		r.reduceScaled(dst, acc, arrived)
	} else {
		r.kernel.Reduce(dst, acc, arrived)
	}
	r.finish(s, dst)
}

func (r *Run) finish(s *plan.Step, dst []byte) {
	if s.Last {
		r.kernel.Finish(dst, dst, r.plan.Shape.Size)
	}
}

// weighs reports whether what is read of a span is scaled.
func (r *Run) weighs(s plan.Span) bool { return s.Buf == plan.In && r.weight != 0 && r.weight != 1 }

// Input is scaled in pieces that stay in the cache: so many bytes before they are reduced, and in a frame. Both are multiples of every
// element's size.
const (
	blockBytes  = 8 << 10
	scaledBytes = 128 << 10
)

// reduceScaled reduces scaled input with a sum, or with what arrived.
func (r *Run) reduceScaled(dst, input, sum []byte) {
	if r.block == nil {
		r.block = make([]byte, blockBytes)
	}
	for len(dst) > 0 {
		n := min(len(dst), blockBytes)
		r.kernel.Scale(r.block[:n], input[:n], r.weight)
		r.kernel.Reduce(dst[:n], r.block[:n], sum[:n])
		dst, input, sum = dst[n:], input[n:], sum[n:]
	}
}

// scaledFrame returns a frame of scaled input, which stays the same until the link has taken it.
func (r *Run) scaledFrame(c *cursor, p []byte) []byte {
	if c.held == 0 {
		if cap(c.scaled) < len(p) {
			c.scaled = make([]byte, len(p))
		}
		c.held = len(p)
		r.kernel.Scale(c.scaled[:c.held], p, r.weight)
	}
	return c.scaled[:c.held]
}

func (r *Run) bytes(s plan.Span) []byte {
	e := r.plan.Shape.Elem
	return r.bufs[s.Buf][s.Off*e : (s.Off+s.Len)*e]
}
