package ring

import (
	"fmt"

	"github.com/colligo-go/colligo/plan"
)

// chunkBytes is the size of a chunk where the shape gives none. It is so small that a sum is still in a core's cache when it
// is sent. It is so large that the cost of a frame does not show.
const chunkBytes = 128 << 10

// builder writes one rank's plan, lane after lane.
type builder struct {
	plan.Shape
	plan  *plan.Plan
	chunk int
	lane  int // being written
}

// begin starts the plan of a shape, which must be of collective c.
func begin(s plan.Shape, c plan.Coll) (*builder, error) {
	if s.Coll != c {
		return nil, fmt.Errorf("ring: the planner of %v was given %v", c, s)
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	p := &plan.Plan{Algo: "ring", Shape: s, Lanes: make([][]plan.Step, s.LaneCount())}
	return &builder{Shape: s, plan: p, chunk: s.ChunkLen(chunkBytes)}, nil
}

// peer returns the rank that is d places further in the ring.
func (b *builder) peer(d int) int { return ((b.Rank+d)%b.Size + b.Size) % b.Size }

// ahead returns how many places rank r is further in the ring than the root.
func (b *builder) ahead(r int) int { return (r - b.Root + b.Size) % b.Size }

// mine returns the current lane's share of a span.
func (b *builder) mine(s plan.Span) plan.Span { return cut(s, len(b.plan.Lanes), b.lane) }

// add appends a step to the current lane, without what has no elements.
func (b *builder) add(s plan.Step) {
	if s.To != plan.None && s.Src.Len == 0 {
		s.To, s.Src = plan.None, plan.Span{}
	}
	if s.From != plan.None && s.Dst.Len == 0 {
		s = plan.Step{To: s.To, From: plan.None, Src: s.Src}
	}
	if s.Local(b.Rank) || s.To != plan.None || s.From != plan.None {
		b.plan.Lanes[b.lane] = append(b.plan.Lanes[b.lane], s)
	}
}

// copy adds a local step.
func (b *builder) copy(dst, src plan.Span) {
	if src.Len > 0 {
		b.add(plan.CopyStep(b.Rank, dst, src))
	}
}

// cut returns part i of n of a span.
func cut(s plan.Span, n, i int) plan.Span {
	p := plan.Part(s.Buf, s.Len, n, i)
	p.Off += s.Off
	return p
}

// blocks returns how many pieces of at most size elements a span of length n needs.
func blocks(n, size int) int {
	if n == 0 {
		return 0
	}
	return (n-1)/size + 1
}
