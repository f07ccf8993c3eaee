package plan

import "fmt"

// Cost is what one rank's plan takes. Steps counts those of the longest lane; all else is elements, over all lanes.
type Cost struct {
	Steps    int
	Sent     int
	Received int // reduced or not
	Scratch  int
	Reduced  int // combined with an operand, on arrival or locally
	Copied   int // by local steps
}

// Cost adds up the plan's steps. A copy of a span onto itself cannot be told from others here and counts.
func (p *Plan) Cost() Cost {
	c := Cost{Scratch: p.Scratch}
	for _, steps := range p.Lanes {
		c.Steps = max(c.Steps, len(steps))
		for i := range steps {
			c.add(&steps[i], p.Shape.Rank)
		}
	}
	return c
}

func (c *Cost) add(s *Step, rank int) {
	if s.To != None {
		c.Sent += s.Src.Len
	}
	local := s.Local(rank)
	if s.From != None && !local {
		c.Received += s.Dst.Len
	}
	switch {
	case s.Reduce:
		c.Reduced += s.Dst.Len
	case local:
		c.Copied += s.Dst.Len
	}
}

// String prints the cost on one line.
func (c Cost) String() string {
	return fmt.Sprintf("%d steps, sent %d, received %d, reduced %d, copied %d, scratch %d",
		c.Steps, c.Sent, c.Received, c.Reduced, c.Copied, c.Scratch)
}

// Rounds returns the critical path of the plans of all ranks in rounds. In each, every send and receive that two ranks stand
// at together is done at once. Local steps take no round. It returns -1 if the plans deadlock.
func Rounds(plans []*Plan) int {
	lanes := 0
	for _, p := range plans {
		if p != nil {
			lanes = max(lanes, len(p.Lanes))
		}
	}
	cursors := newCursors(plans, lanes)
	for n := 0; ; n++ {
		met := meet(cursors, lanes)
		left := 0
		for i := range cursors {
			c := &cursors[i]
			left += len(c.steps) - c.at
			if c.step() != nil {
				c.finish()
			}
		}
		if !met && left > 0 {
			return -1
		}
		if !met {
			return n
		}
	}
}

// meet marks every send and receive of one round as over, after the local steps before them. It reports whether there
// was any.
func meet(cursors []cursor, lanes int) (met bool) {
	for i := range cursors {
		c := &cursors[i]
		for s := c.step(); s != nil && s.Local(c.rank); s = c.step() {
			c.at++
		}
	}
	for i := range cursors {
		c := &cursors[i]
		s := c.step()
		if s == nil || s.To < 0 || c.sent || s.To*lanes >= len(cursors) {
			continue
		}
		if p := &cursors[s.To*lanes+c.lane]; p.receivesFrom(c.rank) {
			c.sent, p.got, met = true, true, true
		}
	}
	return met
}
