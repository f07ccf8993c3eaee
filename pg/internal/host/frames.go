package host

import (
	"fmt"
	"hash/fnv"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// port is the engine's way to the links for one collective. It puts the call into every frame that it sends, and compares
// every frame that it takes with the call.
type port struct {
	links []transport.Link
	zero  []transport.ZeroCopier // by peer, nil where the link is none
	call  transport.Call
	shape *plan.Shape

	zeroCopy bool // long payloads stay in their place until the peer has read them
	head     [transport.MaxLanes]transport.Header
}

// Mismatch is the error when a peer's frame belongs to another call.
type Mismatch struct {
	Peer         int
	Ours, Theirs transport.Call
	Said         string // theirs as the peer words it, if it said so itself
}

// Error names both sides.
func (e *Mismatch) Error() string {
	if alike := e.Theirs; plan.Coll(alike.Coll) == plan.AllToAll {
		if alike.Count = e.Ours.Count; alike == e.Ours {
			return fmt.Sprintf("rank %d sends %d elements to this rank in %s, this rank expects %d", e.Peer, e.Theirs.Count,
				Describe(e.Ours), e.Ours.Count)
		}
	}
	said := e.Said
	if said == "" {
		said = Describe(e.Theirs)
	}
	return fmt.Sprintf("rank %d called %s, this rank called %s", e.Peer, said, Describe(e.Ours))
}

// Is makes the error match colligo.ErrMismatch.
func (e *Mismatch) Is(target error) bool { return target == colligo.ErrMismatch }

// Send implements engine.Port.
func (p *port) Send(peer, lane, step, total int, b []byte) (bool, error) {
	h := &p.head[lane]
	h.Call, h.Lane, h.Step = p.call, uint16(p2pLane+1+lane), uint32(step)
	h.Len, h.Total = uint32(len(b)), uint64(total)
	if p.shape.Coll == plan.AllToAll {
		h.Call.Count = uint64(p.shape.PartLen(peer))
	}
	if !p.zeroCopy || len(b) < zeroCopyBytes {
		return p.links[peer].Send(h, b)
	}
	return p.sendLong(peer, h, b)
}

// zeroCopyBytes is from where on a payload is worth a system call in place of a copy. In groups so large that a frame holds less, all
// payloads are copied.
const zeroCopyBytes = 16 << 10

// sendLong leaves a payload where it is until the peer has read it, where the link can do that.
func (p *port) sendLong(peer int, h *transport.Header, b []byte) (bool, error) {
	if z := p.zero[peer]; z != nil && len(b) <= z.MaxZeroCopy() {
		return z.SendZeroCopy(h, b)
	}
	return p.links[peer].Send(h, b)
}

// withdraw gives up payloads that peers have not read.
func (p *port) withdraw() {
	for _, z := range p.zero {
		if z != nil {
			z.Withdraw()
		}
	}
}

// Arrived implements engine.Port.
func (p *port) Arrived(peer, lane int) (n, total int, err error) {
	h, err := p.links[peer].Head(p2pLane + 1 + lane)
	if h == nil || err != nil {
		return -1, 0, err
	}
	ours := p.call
	if p.shape.Coll == plan.AllToAll {
		ours.Count = uint64(p.shape.RecvLen(peer))
	}
	if h.Call != ours {
		return -1, 0, &Mismatch{Peer: peer, Ours: ours, Theirs: h.Call}
	}
	return int(h.Len), int(h.Total), nil
}

// Body implements engine.Port.
func (p *port) Body(peer, lane int, dst []byte) ([]byte, bool, error) {
	return p.links[peer].Body(p2pLane+1+lane, dst)
}

// Release implements engine.Port.
func (p *port) Release(peer, lane int) { p.links[peer].Release(p2pLane + 1 + lane) }

// MaxFrame implements engine.Port.
func (p *port) MaxFrame(peer int) int {
	n := p.links[peer].MaxFrame()
	if z := p.zero[peer]; z != nil && p.zeroCopy && n >= zeroCopyBytes {
		n = max(n, z.MaxZeroCopy())
	}
	return n
}

// Describe prints a call as "all_reduce #17 (1024 float32 elements, sum)". The first call after #17 without a number of its
// own is printed as "barrier #17.1", and a call of a block with its signature.
func Describe(c transport.Call) string {
	coll, dtype := plan.Coll(c.Coll), colligo.DType(c.DType)
	number, more := op.Seq(c.Seq).Split()
	s := fmt.Sprintf("%v #%d", coll, number)
	if more > 0 {
		s += fmt.Sprintf(".%d", more)
	}
	if coll == plan.Barrier {
		return s
	}
	if coll == plan.AllToAll {
		return s + fmt.Sprintf(" (%v elements)", dtype)
	}
	s += fmt.Sprintf(" (%d %v elements", c.Count, dtype)
	if coll.Reduces() {
		s += ", " + colligo.OpKind(c.Op).String()
	}
	if coll.Rooted() {
		s += fmt.Sprintf(", root %d", c.Root)
	} else if c.Root != 0 {
		s += fmt.Sprintf(", block %08x", c.Root)
	}
	if coll == plan.Broadcast && c.Op != 0 {
		s += fmt.Sprintf(", block %02x", c.Op)
	}
	return s + ")"
}

// ID returns the number by which frames name a group.
func ID(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

// frames is the Wire of a backend whose mesh carries frames.
type frames Backend

var _ Wire = (*frames)(nil)

// Check implements Wire.
func (*frames) Check(*op.Op) error { return nil }

// Poll implements Wire.
func (*frames) Poll() error { return nil }

// Begin implements Wire.
func (f *frames) Begin(o *op.Op) (Start, error) {
	b := (*Backend)(f)
	p, err := b.planFor(o)
	if err != nil {
		return Start{}, err
	}
	weight, err := o.Weight()
	if err != nil {
		return Start{}, err
	}
	o.Identify(&b.port.call, b.ID)
	b.port.shape, b.port.zeroCopy = &p.Shape, p.zeroCopy
	var k engine.Kernel
	if kernel := o.Kernel(); kernel != nil {
		k = kernel
	}
	return Start{Plan: p.Plan, Port: &b.port, Kernel: k, Weight: weight}, nil
}

// Message implements Wire.
func (f *frames) Message(m *Message) (moved, over bool, err error) {
	return (*Backend)(f).advanceMessage(m)
}

// Clear implements Wire.
func (f *frames) Clear() (moved bool) { return (*Backend)(f).keepUnexpected() }
