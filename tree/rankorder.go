package tree

import "github.com/colligo-go/colligo/plan"

// swap returns the steps that send src(k) to every other rank k and receive dst(k) from it. The d-th sends to the rank d
// ahead and receives from the rank d behind.
func swap(s plan.Shape, src, dst func(k int) plan.Span, chunk int) (steps []plan.Step) {
	for d := 1; d < s.Size; d++ {
		to, from := (s.Rank+d)%s.Size, (s.Rank+s.Size-d)%s.Size
		steps = append(steps, exchange(sends(to, chunk, src(to)), recvs(from, chunk, dst(from)))...)
	}
	return steps
}

// others returns the number of rank k among the ranks other than this one.
func others(rank, k int) int {
	if k > rank {
		return k - 1
	}
	return k
}

// localValue returns the values of inRankOrder that lie in slots of the rank itself.
func localValue(s plan.Shape, slot func(k int) plan.Span) func(k int) plan.Step {
	return func(k int) plan.Step { return plan.CopyStep(s.Rank, plan.Span{}, slot(k)) }
}

// inRankOrder returns the steps that reduce the values of all ranks to out, in the order of ranks. The step value(k) is the
// one in which another rank's value arrives, or the local step that takes it from where it is. The rank's input is own,
// which out may alias. So values that are reduced before its turn are kept in partial. Of local values the first is in
// partial already. Where values are local every rank has the same operands in the same order, and so the same of two NaNs.
//
//	rank 0          out = own + 1,  out += 2,  …
//	rank 1          out = own + 0,  out += 2,  …    if values arrive
//	rank r          partial = 0,  partial += 1 … r-1,  out = partial + own,  out += r+1,  …
func inRankOrder(s plan.Shape, own, out, partial plan.Span, value func(k int) plan.Step) (steps []plan.Step) {
	add := func(step plan.Step, dst, acc plan.Span) {
		step.Dst, step.Acc, step.Reduce = dst, acc, true
		steps = append(steps, step)
	}
	acc, k := own, 0
	if local := value(0).Local(s.Rank); s.Rank > 1 || s.Rank == 1 && local {
		if !local {
			first := value(0)
			first.Dst = partial
			steps = append(steps, first)
		}
		for k = 1; k < s.Rank; k++ {
			add(value(k), partial, partial)
		}
		add(plan.CopyStep(s.Rank, plan.Span{}, own), out, partial)
		acc = out
	}
	for ; k < s.Size; k++ {
		if k != s.Rank {
			add(value(k), out, acc)
			acc = out
		}
	}
	steps[len(steps)-1].Last = true
	return steps
}
