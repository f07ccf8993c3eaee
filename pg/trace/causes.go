package trace

import (
	"fmt"
	"slices"
	"strings"
)

// findCauses finds the findings that follow from others. A rank is waited for because it waits elsewhere, because it is the one
// that another finding names, or because its group had failed. Findings are in their final order.
func (r *Report) findCauses() {
	waiting, named, groups := map[int]int{}, map[string]int{}, map[string]int{}
	first := func(all map[int]int, ranks []int, i int) {
		for _, rank := range ranks {
			if _, ok := all[rank]; !ok {
				all[rank] = i
			}
		}
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Kind != Slow {
			first(waiting, f.Waiting, i)
		}
		switch at, again := named[fmt.Sprint(f.Ranks)]; {
		case len(f.Ranks) == 0 || f.Kind == Slow || f.Kind < Missing:
		case again:
			f.cause = at + 1
		default:
			named[fmt.Sprint(f.Ranks)] = i
		}
		if at, again := groups[f.Group]; again && f.Kind == Behind && f.cause == 0 {
			f.cause = at + 1
		} else if !again {
			groups[f.Group] = i
		}
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		for _, rank := range f.Ranks {
			if at, ok := waiting[rank]; ok && i > 0 && f.isMissing() && !r.follows(at, i) {
				f.cause = at + 1
				break
			}
		}
	}
}

// isMissing reports whether a finding is about ranks that others wait for. A mismatch has a cause of its own, and what ranks say
// of a failure is a finding because it contradicts another one.
func (f *Finding) isMissing() bool { return f.Kind >= Missing && f.Kind != Blamed && f.Kind != Slow }

// follows reports whether finding i is finding of, or one of its consequences.
func (r *Report) follows(i, of int) bool {
	for ; i >= 0; i = r.CauseOf(i) {
		if i == of {
			return true
		}
	}
	return false
}

// consequences writes what follows from a finding under it.
func (r *Report) consequences(b *strings.Builder, of, depth int) {
	const deepest = 8 // further in, lines have no room
	pad := strings.Repeat(" ", 3+4*min(depth, deepest))
	for i := range r.Findings {
		if r.CauseOf(i) != of {
			continue
		}
		fmt.Fprintf(b, "%sso: %s\n", pad, strings.Join(slices.Clone(r.Findings[i].lines()), "\n    "+pad))
		r.consequences(b, i, depth+1)
	}
}
