package pg

import (
	"fmt"
	"hash/fnv"
	"math"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// port is the engine's way to the links for one collective: it puts the call into every frame it sends and holds every
// frame it takes against it.
type port struct {
	links []transport.Link
	call  transport.Call
	shape *plan.Shape
	head  [transport.MaxLanes]transport.Header
}

// mismatch is the error when a peer's frame belongs to another call.
type mismatch struct {
	peer         int
	ours, theirs transport.Call
	said         string // theirs as the peer words it, if it said so itself
}

// Error names both sides.
func (e *mismatch) Error() string {
	if alike := e.theirs; plan.Coll(alike.Coll) == plan.AllToAll {
		if alike.Count = e.ours.Count; alike == e.ours {
			return fmt.Sprintf("rank %d sends %d elements to this rank in %s, this rank expects %d", e.peer, e.theirs.Count,
				describe(e.ours), e.ours.Count)
		}
	}
	said := e.said
	if said == "" {
		said = describe(e.theirs)
	}
	return fmt.Sprintf("rank %d called %s, this rank called %s", e.peer, said, describe(e.ours))
}

// Is makes the error match colligo.ErrMismatch.
func (e *mismatch) Is(target error) bool { return target == colligo.ErrMismatch }

// Send implements engine.Port.
func (p *port) Send(peer, lane, step, total int, b []byte) (bool, error) {
	h := &p.head[lane]
	h.Call, h.Lane, h.Step = p.call, uint16(p2pLane+1+lane), uint32(step)
	h.Len, h.Total = uint32(len(b)), uint64(total)
	if p.shape.Coll == plan.AllToAll {
		h.Call.Count = uint64(p.shape.PartLen(peer))
	}
	return p.links[peer].Send(h, b)
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
		return -1, 0, &mismatch{peer: peer, ours: ours, theirs: h.Call}
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
func (p *port) MaxFrame(peer int) int { return p.links[peer].MaxFrame() }

// call makes the identity that an operation's frames carry.
func (g *Group) call(op *operation) transport.Call { return g.identityOf(&op.request, op.seq) }

func (g *Group) identityOf(op *request, seq uint64) (c transport.Call) {
	g.identify(&c, op, seq)
	return c
}

// identify is identityOf with the result where it is to be: of a struct with fields of one byte a copy right after waits for
// them.
func (g *Group) identify(c *transport.Call, op *request, seq uint64) {
	*c = transport.Call{}
	c.Group, c.Coll, c.DType, c.Seq, c.Root = g.id, uint8(op.coll), uint8(op.dtype), seq, int32(op.root)
	if op.coll.Reduces() {
		c.Op = uint8(op.op.Kind())
	}
	if op.coll != plan.AllToAll { // of which every rank may have its own splits; only pairs of ranks share a count
		c.Count = uint64(op.elements())
	}
	if op.members != nil {
		op.sign(c)
	}
}

// sign tells blocks apart whose operations share a plan: which of their elements meet is decided by the length of each. A
// call has no field for that; it is where the collective has nothing to say, for a broadcast in that of the reduction, else in
// that of the root.
func (r *request) sign(c *transport.Call) {
	h := uint64(1)
	for i := range r.members {
		h = (h ^ uint64(r.members[i].count)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	if r.coll.Rooted() {
		c.Op = max(uint8(h>>32), 1)
	} else {
		c.Root = max(int32(h>>32&math.MaxInt32), 1)
	}
}

// describe prints a call as "all_reduce #17 (1024 float32 elements, sum)", one without a number of its own as the first
// after #17 as "barrier #17.1", and one of a block with its signature.
func describe(c transport.Call) string {
	coll, dtype := plan.Coll(c.Coll), colligo.DType(c.DType)
	number, more := split(c.Seq)
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

// identity is the number by which frames name a group.
func identity(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}
