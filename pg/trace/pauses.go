package trace

import (
	"cmp"
	"slices"
)

// Bounds of pauses. A time in which nothing begins or ends is left out of the axis if it is much longer than all shorter ones
// together.
const (
	mostPauses = 8
	muchLonger = 3
)

// Shares of the picture's width that pauses get: all of those together in which an operation goes on, and each of the others.
const (
	waitShare = 0.5
	idleShare = 0.04
)

// pause is a time in which nothing begins or ends. Times are ns since the picture's start.
type pause struct {
	from, to int64
	waits    bool    // an operation goes on
	share    float64 // of the picture's width
}

// pauses returns the times at which the picture's axis is broken, in their order.
func (p *picture) pauses() []pause {
	gaps := p.gaps()
	slices.SortStableFunc(gaps, func(a, b pause) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	rest := int64(0) // of all gaps behind
	n := 0
	for i := len(gaps) - 1; i >= 0; i-- {
		long := gaps[i].to - gaps[i].from
		if n == 0 && i < mostPauses && len(gaps)-i > i && rest > 0 && long/muchLonger > rest {
			n = i + 1
		}
		rest += long
	}
	all := gaps[:n]
	slices.SortFunc(all, func(a, b pause) int { return cmp.Compare(a.from, b.from) })
	waiting := 0
	for i := range all {
		if all[i].waits = p.goesOn(all[i]); all[i].waits {
			waiting++
		}
	}
	for i := range all {
		all[i].share = idleShare
		if all[i].waits {
			all[i].share = waitShare / float64(waiting)
		}
	}
	return all
}

// gaps returns the times between which operations begin and end.
func (p *picture) gaps() []pause {
	var at []int64
	for i := range p.lanes {
		l := &p.lanes[i]
		for j := range l.bars {
			at = append(at, l.bars[j].from, l.bars[j].to)
		}
		for _, s := range l.slots {
			at = append(at, s.from, s.to)
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	var gaps []pause
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, pause{from: at[i-1], to: at[i]})
	}
	return gaps
}

// goesOn reports whether an operation goes on all through a pause.
func (p *picture) goesOn(g pause) bool {
	return slices.ContainsFunc(p.lanes, func(l lane) bool {
		return slices.ContainsFunc(l.bars, func(b bar) bool { return b.from <= g.from && b.to >= g.to })
	})
}
