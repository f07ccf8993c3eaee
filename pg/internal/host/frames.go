package host

import (
	"fmt"
	"hash/fnv"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/tuning"
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
	head     [Lanes]transport.Header
}

// Mismatch is the error when a peer's frame belongs to another call.
type Mismatch struct {
	Peer         int
	Ours, Theirs transport.Call
	Said         string // theirs as the peer words it, if it said so itself
	UpTo         uint64 // if not 0: the number up to which some collective on devices was not the same
}

// Error names both sides.
func (e *Mismatch) Error() string {
	if alike := e.Theirs; plan.Coll(alike.Coll) == plan.AllToAll {
		if alike.Count = e.Ours.Count; alike == e.Ours {
			return fmt.Sprintf("rank %d sends %d elements to this rank in %s, this rank expects %d", e.Peer, e.Theirs.Count,
				Describe(e.Ours), e.Ours.Count)
		}
	}
	if e.UpTo > 0 {
		return fmt.Sprintf("rank %d and this rank called different collectives on devices, in one of those up to #%d", e.Peer, e.UpTo)
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
	h.Call, h.Lane, h.Step = p.call, uint16(lane), uint32(step)
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

// Arrived implements engine.Port.
func (p *port) Arrived(peer, lane int) (n, total int, err error) {
	h, err := p.links[peer].Head(lane)
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
	return p.links[peer].Body(lane, dst)
}

// Release implements engine.Port.
func (p *port) Release(peer, lane int) { p.links[peer].Release(lane) }

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
func (f *frames) Begin(o *op.Op, s *Start) error {
	b := (*Backend)(f)
	p, err := b.planFor(o)
	if err != nil {
		return err
	}
	kernel := o.Kernel()
	weight, err := o.WeightBy(kernel)
	if err != nil {
		return err
	}
	o.Identify(&b.port.call, b.ID)
	b.port.shape, b.port.zeroCopy = &p.Shape, p.zeroCopy
	s.Plan, s.Halves, s.Port, s.Weight = p.Plan, p.halves, &b.port, weight
	if kernel != nil {
		s.Kernel = kernel
	}
	return nil
}

// Message implements Wire.
func (f *frames) Message(m *Message) (moved, over bool, err error) {
	return (*Backend)(f).advanceMessage(m)
}

// Clear implements Wire.
func (f *frames) Clear() (moved bool) { return (*Backend)(f).keepUnexpected() }

// Withdraw implements Wire.
func (f *frames) Withdraw() {
	for _, z := range f.port.zero {
		if z != nil {
			z.Withdraw()
		}
	}
}

// Lanes is the lanes that a group needs of its mesh: those of collectives, and one for sends and receives.
const Lanes = 1 + tuning.MaxLanes

// PlanCacheSize bounds the plans that a group keeps; beyond it the cache starts anew.
const PlanCacheSize = 256

// planKey is everything that the plan of an even collective depends on within one group.
type planKey struct {
	coll        plan.Coll
	root, count int
	elem        int
}

// planned is a plan, and whether its payloads stay in their place until the peer has read them.
type planned struct {
	*plan.Plan
	zeroCopy bool
	halves   *[2]plan.Plan // its two lanes, where a goroutine carries out each
}

type planCache map[planKey]planned

// planFor returns this rank's plan of an operation. Plans of even collectives are kept.
func (b *Backend) planFor(o *op.Op) (planned, error) {
	key := planKey{o.Coll, int(o.Root), o.Count, o.Elem()}
	r := o.Rare()
	even := r.Counts == nil
	if even && b.last.Plan != nil && key == b.lastKey {
		return b.last, nil
	}
	if even {
		if p, ok := b.plans[key]; ok {
			b.last, b.lastKey = p, key
			return p, nil
		}
	}
	rule := tuning.Pick(b.Tuning, o.Coll, b.at, o.TuningBytes())
	planner, err := tuning.Planner(o.Coll, rule.Algo)
	if err != nil {
		return planned{}, err
	}
	made, err := planner(plan.Shape{Coll: o.Coll, Rank: b.Rank, Size: b.Size, Root: key.root, Count: o.Count, Elem: key.elem,
		Lanes: rule.Lanes, Chunk: rule.ChunkBytes / key.elem, Counts: r.Counts, RecvCounts: r.Recvs})
	if err != nil {
		return planned{}, err
	}
	if len(made.Lanes) > tuning.MaxLanes {
		return planned{}, fmt.Errorf("plan %s of %v has %d lanes, the mesh has %d", rule.Algo, o.Coll, len(made.Lanes), tuning.MaxLanes)
	}
	p := planned{Plan: made, zeroCopy: tuning.ZeroCopy(rule.Algo)}
	if b.worker != nil && o.TuningBytes() >= workerBytes {
		p.halves = halve(made)
	}
	if even {
		if b.plans == nil || len(b.plans) >= PlanCacheSize {
			b.plans = planCache{}
		}
		b.plans[key] = p
	}
	return p, nil
}

// Plans returns the plans that are kept. The progress engine must not run meanwhile.
func (b *Backend) Plans() []*plan.Plan {
	var all []*plan.Plan
	for _, p := range b.plans {
		all = append(all, p.Plan)
	}
	return all
}
