package ring

import (
	"fmt"

	"github.com/colligo-go/colligo/plan"
)

// AllToAll sends block s of each rank's tensor to rank s, in rotation. In turn d a rank sends to the rank d places ahead,
// and receives from the rank d places behind, in chunks. Blocks may have any lengths.
//
//	steps    a copy, and in turn d the chunks of the longer of the two blocks; (n-1)⌈S/(nC)⌉ if blocks are even
//	bytes    S less the own block sent, and what is for this rank less the own block received
//	scratch  none
func AllToAll(s plan.Shape) (*plan.Plan, error) {
	b, err := begin(s, plan.AllToAll)
	if err != nil {
		return nil, err
	}
	var in, out []plan.Span
	for r, i, o := 0, 0, 0; r < s.Size; r++ {
		in = append(in, plan.Span{Buf: plan.In, Off: i, Len: s.PartLen(r)})
		out = append(out, plan.Span{Buf: plan.Out, Off: o, Len: s.RecvLen(r)})
		i, o = i+s.PartLen(r), o+s.RecvLen(r)
	}
	if in[s.Rank].Len != out[s.Rank].Len {
		return nil, fmt.Errorf("ring: %v: sends %d elements to itself and receives %d", s, in[s.Rank].Len, out[s.Rank].Len)
	}
	for b.lane = range b.plan.Lanes {
		b.copy(b.mine(out[s.Rank]), b.mine(in[s.Rank]))
		for d := 1; d < s.Size; d++ {
			to, from := b.peer(d), b.peer(-d)
			if b.lane == 0 && (in[to].Len == 0 || out[from].Len == 0) {
				b.announce(to, in[to], from, out[from])
			}
			b.exchange(to, b.mine(in[to]), from, b.mine(out[from]))
		}
	}
	return b.plan, nil
}

// announce sends and receives the frames of blocks without elements.
func (b *builder) announce(to int, src plan.Span, from int, dst plan.Span) {
	step := plan.Step{To: plan.None, From: plan.None}
	if src.Len == 0 {
		step.To, step.Src = to, src
	}
	if dst.Len == 0 {
		step.From, step.Dst = from, dst
	}
	b.plan.Lanes[0] = append(b.plan.Lanes[0], step)
}

// exchange sends one span while it receives another, each in the chunks that its two ends agree on by its length.
func (b *builder) exchange(to int, src plan.Span, from int, dst plan.Span) {
	sends, receives := blocks(src.Len, b.chunk), blocks(dst.Len, b.chunk)
	for k := range max(sends, receives) {
		step := plan.Step{To: plan.None, From: plan.None}
		if k < sends {
			step.To, step.Src = to, cut(src, sends, k)
		}
		if k < receives {
			step.From, step.Dst = from, cut(dst, receives, k)
		}
		b.add(step)
	}
}
