package tree

import "github.com/colligo-go/colligo/plan"

// Pipelines over a tree: chunks follow one another, each rank forwards chunk t while it receives chunk t+1. With at most k
// children for each rank they move one chunk in k steps. The steps fit together for any tree. For let the step with the j-th
// child in the round of chunk t have the time a + k·t + j. Then a rank's a follows from its parent's without contradiction.

// pipeDown returns the steps of a broadcast of one part, from In at the root to Out elsewhere. The last child's chunk is
// sent while the next arrives.
func pipeDown(t node, part plan.Span, chunk int) (steps []plan.Step) {
	if t.parent == plan.None {
		for i := 0; i*chunk < part.Len; i++ {
			src, _ := part.Chunk(chunk, i)
			for _, c := range t.children {
				steps = append(steps, plan.SendTo(c, src))
			}
		}
		return steps
	}
	arrives := recvs(t.parent, chunk, part.In(plan.Out, 0))
	if len(t.children) == 0 {
		return arrives
	}
	last := len(t.children) - 1
	held := plan.SendTo(t.children[last], plan.Span{})
	for i, s := range arrives {
		if i > 0 {
			s.To, s.Src = held.To, held.Src
		}
		held.Src = s.Dst
		steps = append(steps, s)
		for _, c := range t.children[:last] {
			steps = append(steps, plan.SendTo(c, s.Dst))
		}
	}
	return append(steps, held)
}

// pipeUp returns the steps of a reduction of one part to the root, from In to Out. Ranks between keep two chunks in
// scratch, beginning at element base of it, and send one to the parent while the first child's next arrives.
func pipeUp(t node, part plan.Span, chunk, base int) (steps []plan.Step) {
	if len(t.children) == 0 {
		return sends(t.parent, chunk, part)
	}
	held := plan.SendTo(t.parent, plan.Span{})
	for i := 0; i*chunk < part.Len; i++ {
		in, _ := part.Chunk(chunk, i)
		sum := in.In(plan.Out, 0)
		if t.parent != plan.None {
			sum = plan.Span{Buf: plan.Scratch, Off: base + i%2*min(chunk, part.Len), Len: in.Len}
		}
		for k := range t.children {
			s := upFrom(t, k, in, sum)
			if k == 0 && i > 0 && t.parent != plan.None {
				s.To, s.Src = held.To, held.Src
			}
			steps = append(steps, s)
		}
		held.Src = sum
	}
	if t.parent != plan.None {
		steps = append(steps, held)
	}
	return steps
}

// upScratch returns the elements of scratch that pipeUp uses for a part.
func upScratch(t node, part plan.Span, chunk int) int {
	if t.parent == plan.None || len(t.children) == 0 {
		return 0
	}
	return min(part.Len, 2*min(chunk, part.Len))
}

// pipeBoth returns the steps of an all-reduce of one part. It is a reduction to the root and the broadcast of its result, in
// one pipeline of rounds. In round i a rank exchanges with each child, then with its parent. Chunk i goes up while chunk i-d
// comes down, where d is the depth of the lower end. A rank has the chunk that it sends down from its parent since the round
// before.
//
//	round     0     1     2     3     4         T = 3 chunks, a chain root — a — b
//	root—a   ↑0    ↑1↓0  ↑2↓1    ↓2
//	a—b      ↑0    ↑1    ↑2↓0    ↓1    ↓2
func pipeBoth(t node, part plan.Span, chunk int) (steps []plan.Step) {
	total := (part.Len-1)/chunk + 1
	for i := range total + t.depth + 1 {
		for k, c := range t.children {
			s := plan.Step{To: plan.None, From: plan.None}
			if i < total {
				in := nth(part, chunk, i)
				s = upFrom(t, k, in, in.In(plan.Out, 0))
			}
			if down := i - t.depth - 1; 0 <= down && down < total {
				s.To, s.Src = c, nth(part, chunk, down).In(plan.Out, 0)
			}
			steps = appendBusy(steps, s)
		}
		if t.parent == plan.None {
			continue
		}
		s := plan.Step{To: plan.None, From: plan.None}
		if i < total {
			s = upTo(t, nth(part, chunk, i))
		}
		if down := i - t.depth; 0 <= down && down < total {
			s.From, s.Dst = t.parent, nth(part, chunk, down).In(plan.Out, 0)
		}
		steps = appendBusy(steps, s)
	}
	return steps
}

// upFrom returns the step that adds the k-th child's sum of a chunk to the rank's own.
func upFrom(t node, k int, in, sum plan.Span) plan.Step {
	s := plan.RecvFrom(t.children[k], sum)
	s.Acc, s.Reduce = s.Dst, true
	if k == 0 {
		s.Acc = in
	}
	s.Last = t.parent == plan.None && k == len(t.children)-1
	return s
}

// upTo returns the step that sends the rank's sum of a chunk to the parent.
func upTo(t node, in plan.Span) plan.Step {
	if len(t.children) > 0 {
		in = in.In(plan.Out, 0)
	}
	return plan.SendTo(t.parent, in)
}

// nth returns chunk i of a span.
func nth(s plan.Span, chunk, i int) plan.Span {
	s, _ = s.Chunk(chunk, i)
	return s
}

// appendBusy appends a step unless it neither sends nor receives.
func appendBusy(steps []plan.Step, s plan.Step) []plan.Step {
	if s.To == plan.None && s.From == plan.None {
		return steps
	}
	return append(steps, s)
}
