package engine

import "github.com/colligo-go/colligo/plan"

// Standing is how far a run has come, for a report about a run that stands still.
type Standing struct {
	Moved uint64        // changes with everything that moves
	From  []int         // peers from which the current steps wait for bytes
	Sent  map[int]int64 // measure of what was handed over, by peer
	Got   map[int]int64 // measure of what has arrived, by peer
}

// Standing returns how far the run has come. If nothing is on its way, a rank's Sent for a peer equals that peer's Got for the
// rank. The measure counts bytes, and one for each step, so that empty steps count too.
func (r *Run) Standing() Standing {
	s := Standing{Sent: map[int]int64{}, Got: map[int]int64{}}
	for l := range r.lanes {
		c := &r.lanes[l]
		s.Moved += uint64(c.step)<<32 + uint64(c.sent+c.got)
		steps := r.plan.Lanes[l]
		for i := range steps[:c.step] {
			s.count(r.plan, &steps[i], int64(steps[i].Src.Len*r.plan.Shape.Elem)+1, int64(steps[i].Dst.Len*r.plan.Shape.Elem)+1)
		}
		if c.step == len(steps) {
			continue
		}
		now := &steps[c.step]
		sent, got := int64(c.sent), int64(c.got)
		if c.out {
			sent++
		}
		if c.in {
			got++
		} else if now.From != r.plan.Shape.Rank {
			s.From = append(s.From, now.From)
		}
		s.count(r.plan, now, sent, got)
		s.Moved += uint64(c.ahead)
		for i := range steps[c.step+1:][:c.ahead] {
			s.count(r.plan, &steps[c.step+1+i], int64(steps[c.step+1+i].Src.Len*r.plan.Shape.Elem)+1, 0)
		}
	}
	return s
}

// count adds what a step has sent and what has arrived for it.
func (s *Standing) count(p *plan.Plan, step *plan.Step, sent, got int64) {
	if step.From == p.Shape.Rank {
		return // a step on this rank alone
	}
	if step.To != plan.None {
		s.Sent[step.To] += sent
	}
	if step.From != plan.None {
		s.Got[step.From] += got
	}
}
