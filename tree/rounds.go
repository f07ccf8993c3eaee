package tree

import "github.com/colligo-go/colligo/plan"

// A round is built from the spans that a rank sends in it and the spans that it receives in it. Both are cut into chunks and
// merged into exchange steps.

// sends returns the steps that send the spans to a peer.
func sends(to, chunk int, spans ...plan.Span) (steps []plan.Step) {
	for _, src := range spans {
		for i := 0; i*chunk < src.Len; i++ {
			piece, _ := src.Chunk(chunk, i)
			steps = append(steps, plan.SendTo(to, piece))
		}
	}
	return steps
}

// recvs returns the steps that receive the spans from a peer.
func recvs(from, chunk int, spans ...plan.Span) (steps []plan.Step) {
	for _, dst := range spans {
		for i := 0; i*chunk < dst.Len; i++ {
			piece, _ := dst.Chunk(chunk, i)
			steps = append(steps, plan.RecvFrom(from, piece))
		}
	}
	return steps
}

// sums returns the steps that receive from a peer and reduce: dst = acc op what arrives.
func sums(from, chunk int, dst, acc plan.Span, last bool) []plan.Step {
	steps := recvs(from, chunk, dst)
	for i := range steps {
		s := &steps[i]
		s.Acc = plan.Span{Buf: acc.Buf, Off: acc.Off + s.Dst.Off - dst.Off, Len: s.Dst.Len}
		s.Reduce, s.Last = true, last
	}
	return steps
}

// exchange merges what a rank sends and what it receives in one round: the i-th of both become one step.
func exchange(send, recv []plan.Step) []plan.Step {
	if len(send) > len(recv) {
		recv = append(recv, send[len(recv):]...)
	}
	for i := range min(len(send), len(recv)) {
		recv[i].To, recv[i].Src = send[i].To, send[i].Src
	}
	return recv
}

// copies returns the local step that copies src to dst, none if they are empty.
func copies(rank int, dst, src plan.Span) []plan.Step {
	if dst.Len == 0 {
		return nil
	}
	return []plan.Step{plan.CopyStep(rank, dst, src)}
}

// sub returns the elements [from, to) of a span, counted from its begin.
func sub(s plan.Span, from, to int) plan.Span {
	return plan.Span{Buf: s.Buf, Off: s.Off + from, Len: to - from}
}
