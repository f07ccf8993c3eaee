package transporttest

import (
	"fmt"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// Flow is something that the goroutine of a mesh advances without blocking. String names it in errors.
type Flow interface {
	// Step does what can be done now; it says whether anything moved and whether nothing is left to do.
	Step() (moved, done bool, err error)
	String() string
}

// Drive steps the flows over the links of m in turn until all are done, and waits with Mesh.Wait when a round moved
// nothing. It fails at the first error of a flow, and when nothing more moves until limit has passed.
func Drive(m transport.Mesh, limit time.Duration, flows ...Flow) error {
	until := time.Now().Add(limit)
	open := append([]Flow{}, flows...)
	for idle := 0; ; {
		rest, moved, err := round(open)
		if err != nil || len(rest) == 0 {
			return err
		}
		open = rest
		if moved {
			idle = 0
			continue
		}
		if !time.Now().Before(until) {
			return fmt.Errorf("after %v %d of %d flows are not done; the first: %v", limit, len(open), len(flows), open[0])
		}
		idle++
		m.Wait(idle, until)
	}
}

// round steps every flow once and returns the flows that are not done, in the memory of flows.
func round(flows []Flow) (rest []Flow, moved bool, err error) {
	rest = flows[:0]
	for _, f := range flows {
		m, done, err := f.Step()
		if err != nil {
			return nil, false, fmt.Errorf("%v: %w", f, err)
		}
		moved = moved || m
		if !done {
			rest = append(rest, f)
		}
	}
	return rest, moved, nil
}

// Sender is a Flow that sends Count frames on one lane of a link.
type Sender struct {
	Link  transport.Link
	Peer  int // for messages
	Lane  int
	Count int
	Frame func(i int) (transport.Header, []byte) // makes frame i; called once for each
	Slot  func(i int) bool                       // whether frame i is built in a slot where there is one; nil: none is

	next  int
	ready bool // h and p are frame next
	tried bool // frame next was offered once, so it stays where it is
	h     transport.Header
	p     []byte
}

// Step sends frames until one is refused.
func (s *Sender) Step() (moved, done bool, err error) {
	for ; s.next < s.Count; s.next++ {
		if !s.ready {
			s.h, s.p = s.Frame(s.next)
			s.ready, s.tried = true, false
		}
		if !s.tried && s.Slot != nil && s.Slot(s.next) {
			s.build()
		}
		s.tried = true
		ok, err := s.Link.Send(&s.h, s.p)
		if err != nil || !ok {
			return moved, false, err
		}
		moved, s.ready = true, false
	}
	return moved, true, nil
}

// build moves the payload into a slot of the link if there is one that holds it.
func (s *Sender) build() {
	if slot := s.Link.Slot(s.Lane, len(s.p)); len(slot) >= len(s.p) {
		s.p = slot[:copy(slot, s.p)]
	}
}

// Sent returns how many frames the link has taken.
func (s *Sender) Sent() int { return s.next }

func (s *Sender) String() string {
	return fmt.Sprintf("send to rank %d, lane %d, frame %d of %d", s.Peer, s.Lane, s.next, s.Count)
}

// Receiver is a Flow that takes Count frames off one lane of a link.
type Receiver struct {
	Link  transport.Link
	Peer  int // for messages
	Lane  int
	Count int
	Into  func(i int, h *transport.Header) []byte          // memory of h.Len bytes for frame i, or nil; nil: link's memory
	Take  func(i int, h *transport.Header, p []byte) error // gets frame i before it is released

	next int
	have bool // dst is the memory for frame next
	dst  []byte
}

// Step takes frames until one is missing.
func (r *Receiver) Step() (moved, done bool, err error) {
	for ; r.next < r.Count; r.next++ {
		ok, err := r.one()
		if err != nil || !ok {
			return moved, false, err
		}
		moved, r.have, r.dst = true, false, nil
	}
	return moved, true, nil
}

func (r *Receiver) one() (bool, error) {
	h, err := r.Link.Head(r.Lane)
	if err != nil || h == nil {
		return false, err
	}
	if !r.have && r.Into != nil {
		r.dst = r.Into(r.next, h)
	}
	r.have = true
	p, full, err := r.Link.Body(r.Lane, r.dst)
	if err != nil || !full {
		return false, err
	}
	if r.dst != nil && len(p) > 0 && &p[0] != &r.dst[0] {
		return false, fmt.Errorf("body is not in the memory given for it")
	}
	if err := r.Take(r.next, h, p); err != nil {
		return false, err
	}
	r.Link.Release(r.Lane)
	return true, nil
}

// Taken returns how many frames were taken.
func (r *Receiver) Taken() int { return r.next }

func (r *Receiver) String() string {
	return fmt.Sprintf("receive from rank %d, lane %d, frame %d of %d", r.Peer, r.Lane, r.next, r.Count)
}
