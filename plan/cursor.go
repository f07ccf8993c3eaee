package plan

// cursor is where one lane of one rank stands: at a step of which the send, the receive or none of both is over.
type cursor struct {
	rank, lane int
	steps      []Step
	at         int
	sent, got  bool
	known      []uint64 // barrier: set of ranks whose start this lane has heard of, before and with this step
	heard      []uint64
	starts     bool // a frame tells of its sender's start only
}

func newCursors(plans []*Plan, lanes int) []cursor {
	all := make([]cursor, 0, len(plans)*lanes)
	for r, p := range plans {
		for l := range lanes {
			c := cursor{rank: r, lane: l}
			if p != nil && l < len(p.Lanes) {
				c.steps = p.Lanes[l]
			}
			if p != nil && p.Shape.Coll == Barrier {
				c.starts = p.Starts
				words := (len(plans) + 63) / 64
				c.known, c.heard = make([]uint64, words), make([]uint64, words)
				c.known[r/64] |= 1 << (r % 64)
			}
			all = append(all, c)
		}
	}
	return all
}

// step returns the step that the lane stands at, nil at the end.
func (c *cursor) step() *Step {
	if c.at == len(c.steps) {
		return nil
	}
	return &c.steps[c.at]
}

func (c *cursor) sendsTo(rank int) bool {
	s := c.step()
	return s != nil && s.To == rank && !c.sent
}

func (c *cursor) receivesFrom(rank int) bool {
	s := c.step()
	return s != nil && s.From == rank && !c.got
}

// tell has another lane hear of the starts that a frame of this one tells of.
func (c *cursor) tell(to *cursor) {
	if c.starts {
		to.heard[c.rank/64] |= 1 << (c.rank % 64)
		return
	}
	for i, w := range c.known {
		to.heard[i] |= w
	}
}

// finish goes on to the next step if this one is over.
func (c *cursor) finish() bool {
	s := c.step()
	if s.To != None && !c.sent || s.From != None && !c.got {
		return false
	}
	for i, w := range c.heard {
		c.known[i] |= w
	}
	c.at, c.sent, c.got = c.at+1, false, false
	return true
}
