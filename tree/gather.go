package tree

import (
	"slices"

	"github.com/colligo-go/colligo/plan"
)

// gather plans a gather over a tree in which each subtree is a range of ranks from the root and children rise.
func gather(algo string, coll plan.Coll, s plan.Shape, tree func(rel, size int) node) (*plan.Plan, error) {
	p, done, err := begin(algo, coll, s)
	if done || err != nil {
		return p, err
	}
	g := gathering{s: s, rel: relative(s), parts: partsOf(s), chunk: s.ChunkLen(frameBytes)}
	t := tree(g.rel, s.Size)
	switch own := (plan.Span{Buf: plan.In, Len: s.PartLen(s.Rank)}); {
	case g.rel == 0:
		p.Lanes[0] = g.atRoot(t, own)
	case len(t.children) == 0:
		p.Lanes[0] = sends(g.rank(t.parent), g.chunk, own)
	default:
		p.Lanes[0], p.Scratch = g.between(t, own)
	}
	return p, nil
}

// gathering is one rank's view of a gather.
type gathering struct {
	s          plan.Shape
	rel, chunk int
	parts      circle
}

func (g *gathering) rank(rel int) int { return (rel + g.s.Root) % g.s.Size }

// atRoot returns the steps of the root: all parts arrive in their places.
func (g *gathering) atRoot(t node, own plan.Span) []plan.Step {
	steps := copies(g.s.Rank, g.parts.at(plan.Out, g.s.Root), own)
	for i, c := range t.children {
		steps = append(steps, recvs(g.rank(c), g.chunk, g.parts.spans(plan.Out, g.rank(c), t.below(i)-c)...)...)
	}
	return steps
}

// between returns the steps of a rank that packs its subtree's parts in scratch, and the length of them.
func (g *gathering) between(t node, own plan.Span) (steps []plan.Step, total int) {
	width := t.end - g.rel
	total = g.parts.len(g.s.Rank, width)
	all := plan.Span{Buf: plan.Scratch, Len: total}
	steps = copies(g.s.Rank, sub(all, 0, own.Len), own)
	for i, c := range t.children {
		dst := sub(all, g.parts.len(g.s.Rank, c-g.rel), g.parts.len(g.s.Rank, t.below(i)-g.rel))
		steps = append(steps, recvs(g.rank(c), g.chunk, dst)...)
	}
	pieces := []plan.Span{all}
	if t.parent == 0 {
		pieces = g.parts.cut(all, g.s.Rank, width)
	}
	return append(steps, sends(g.rank(t.parent), g.chunk, pieces...)...), total
}

// scatter plans a scatter as the gather backwards in time.
func scatter(algo string, s plan.Shape, tree func(rel, size int) node) (*plan.Plan, error) {
	p, err := gather(algo, plan.Scatter, s, tree)
	if err != nil || s.Size == 1 {
		return p, err
	}
	steps := p.Lanes[0]
	slices.Reverse(steps)
	for i, q := range steps {
		steps[i] = plan.Step{To: q.From, From: q.To, Src: swapped(q.Dst), Dst: swapped(q.Src)}
		if q.Local(s.Rank) {
			steps[i].To, steps[i].From = plan.None, s.Rank
		}
	}
	return p, nil
}

// swapped returns the span with In and Out exchanged.
func swapped(s plan.Span) plan.Span {
	switch {
	case s.Len == 0:
		return plan.Span{}
	case s.Buf == plan.In:
		s.Buf = plan.Out
	case s.Buf == plan.Out:
		s.Buf = plan.In
	}
	return s
}
