package plan

import "slices"

func (c *checker) cursor(rank, lane int) *cursor { return &c.cursors[rank*c.lanes+lane] }

// run executes all plans until nothing moves any more. Lanes share nothing but what messages order, so the order of
// execution does not matter.
func (c *checker) run() error {
	ready := make([]*cursor, 0, len(c.cursors))
	for i := range slices.Backward(c.cursors) {
		ready = append(ready, &c.cursors[i])
	}
	for len(ready) > 0 {
		cur := ready[len(ready)-1]
		if cur.step() == nil {
			ready = ready[:len(ready)-1]
			continue
		}
		peers, err := c.advance(cur)
		if err != nil {
			return err
		}
		if !cur.finish() {
			ready = ready[:len(ready)-1]
		}
		for _, p := range peers {
			if p != nil && p.finish() {
				ready = append(ready, p)
			}
		}
	}
	for i := range c.cursors {
		if c.cursors[i].step() != nil {
			return c.stuck(&c.cursors[i])
		}
	}
	return nil
}

// advance does what can be done of a lane's step, and returns the lanes of peers that it met.
func (c *checker) advance(cur *cursor) (met [2]*cursor, err error) {
	s := cur.step()
	if s.Local(cur.rank) {
		cur.got = true
		return met, c.move(cur, cur)
	}
	if s.To != None && !cur.sent {
		if p := c.cursor(s.To, cur.lane); p.receivesFrom(cur.rank) {
			met[0], cur.sent, p.got = p, true, true
			if err := c.move(cur, p); err != nil {
				return met, err
			}
		}
	}
	if s.From != None && !cur.got {
		if p := c.cursor(s.From, cur.lane); p.sendsTo(cur.rank) {
			met[1], cur.got, p.sent = p, true, true
			if err := c.move(p, cur); err != nil {
				return met, err
			}
		}
	}
	if met[0] == met[1] {
		met[1] = nil
	}
	return met, nil
}

// move carries what one lane's step sends to where the other's receives it.
func (c *checker) move(from, to *cursor) error {
	s, d := from.step(), to.step()
	if s.Src.Len != d.Dst.Len {
		return c.fault(from.rank, from.lane, from.at, "sends %d elements %v to rank %d, whose step %d receives %d elements %v",
			s.Src.Len, s.Src, to.rank, to.at, d.Dst.Len, d.Dst)
	}
	from.tell(to)
	arrived, err := c.load(from, s.Src, 0)
	if err != nil {
		return err
	}
	if d.Reduce {
		if arrived, err = c.reduce(to, d, arrived); err != nil {
			return err
		}
	}
	at := c.layouts[to.rank].at(d.Dst)
	c.mem[to.rank][at.Buf].write(at.Off, arrived)
	return nil
}

// load reads a span that must be defined. The pieces are good until the next load into the same buffer.
func (c *checker) load(cur *cursor, s Span, buf int) ([]piece, error) {
	at := c.layouts[cur.rank].at(s)
	pieces := c.mem[cur.rank][at.Buf].read(c.pieces[buf][:0], at.Off, at.Len)
	c.pieces[buf] = pieces
	off := s.Off
	for _, p := range pieces {
		if p.val.tree == nil {
			return nil, c.fault(cur.rank, cur.lane, cur.at, "reads %v, which nothing has written", Span{s.Buf, off, p.len})
		}
		off += p.len
	}
	return pieces, nil
}

// reduce combines what arrived with the step's own operand, element by element.
func (c *checker) reduce(cur *cursor, s *Step, arrived []piece) ([]piece, error) {
	own, err := c.load(cur, s.Acc, 1)
	if err != nil {
		return nil, err
	}
	result := c.pieces[2][:0]
	off := s.Dst.Off
	for len(own) > 0 {
		a, b := &own[0], &arrived[0]
		n := min(a.len, b.len)
		if what := c.checkOperands(a.val, b.val, s.Last); what != "" {
			return nil, c.fault(cur.rank, cur.lane, cur.at, "into %v: %s", Span{s.Dst.Buf, off, n}, what)
		}
		result = append(result, piece{n, value{combine(a.val.tree, b.val.tree, s.Last), a.val.first}})
		if own, arrived = drop(own, n), drop(arrived, n); len(own) == 0 {
			break
		}
		off += n
	}
	c.pieces[2] = result
	return result, nil
}

// drop removes n elements, not more than the first piece has.
func drop(pieces []piece, n int) []piece {
	if pieces[0].len == n {
		return pieces[1:]
	}
	pieces[0].len -= n
	pieces[0].val = pieces[0].val.skip(n)
	return pieces
}

// checkOperands says why two values must not be combined, nothing if they may.
func (c *checker) checkOperands(a, b value, last bool) string {
	if a.first != b.first {
		return sprint("combines element %d of the input with element %d", a.first, b.first)
	}
	if a.tree.done || b.tree.done {
		return "combines what a step marked Last has finished"
	}
	n := a.tree.inputs + b.tree.inputs
	switch whole := n == c.size && a.tree.set+b.tree.set == c.full; {
	case whole && !last:
		return "completes the reduction and is not marked Last"
	case last && !whole || n >= c.size && !whole:
		return sprint("the reduction %s", c.describe(a.tree, b.tree))
	}
	return ""
}
