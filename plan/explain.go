package plan

import (
	"fmt"
	"strings"
)

// sprint is short for what most of the checks do.
func sprint(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// describe lists which inputs a reduction has more than once or not at all, a few of each.
func (c *checker) describe(trees ...*tree) string {
	holds := map[int]int{}
	for _, t := range trees {
		t.count(holds)
	}
	var missing, parts []string
	for r := range c.size {
		switch n := holds[r]; {
		case n == 0:
			missing = append(missing, fmt.Sprint(r))
		case n > 1 && len(parts) < 4:
			parts = append(parts, fmt.Sprintf("holds %d times the input of rank %d", n, r))
		}
	}
	if n := len(missing); n > 4 {
		missing = append(missing[:4:4], fmt.Sprintf("and %d more", n-4))
	}
	if len(missing) > 0 {
		parts = append(parts, "lacks the input of rank "+strings.Join(missing, ", "))
	}
	return strings.Join(parts, "; ")
}

// stuck follows a lane that waits for ever from rank to rank: to a circle, or to a rank that has no step for it.
func (c *checker) stuck(cur *cursor) error {
	first, seen := cur, map[int]bool{}
	var chain []string
	for cur.step() != nil && !seen[cur.rank] && len(chain) < 16 {
		seen[cur.rank] = true
		s := cur.step()
		peer, what := s.To, "send to"
		if s.To == None || cur.sent {
			peer, what = s.From, "receive from"
		}
		chain = append(chain, fmt.Sprintf("rank %d step %d waits to %s rank %d", cur.rank, cur.at, what, peer))
		cur = c.cursor(peer, cur.lane)
	}
	end := fmt.Sprintf("rank %d is at its end", cur.rank)
	if cur.step() != nil {
		end = fmt.Sprintf("so for ever round to rank %d", cur.rank)
		if !seen[cur.rank] {
			end = "and so on"
		}
	}
	p := c.plans[first.rank]
	return fmt.Errorf("plan: %v %s: deadlock on lane %d: %s; %s", p.Shape.Coll, p.Algo, first.lane, strings.Join(chain, "; "), end)
}
