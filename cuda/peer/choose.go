package peer

import "github.com/colligo-go/colligo/plan"

// tuned is a rule with the algorithms that may take its operations, in the order in which they are asked. They are the rule's
// own algorithm and its fallbacks.
type tuned struct {
	Rule
	by []*algorithm
}

// tune keeps the rules that the group can follow, and adds the last one of each collective.
func (x *launcher) tune(rules []Rule) {
	for _, r := range rules {
		of := algorithmNamed(r.Algorithm)
		if !r.coversSize(x.size) || !x.able(of.forms[r.Coll].needs) {
			continue
		}
		t := tuned{r, []*algorithm{of}}
		for _, name := range fallbacks[r.Algorithm] {
			if a := algorithmNamed(name); a.serves(r.Coll) && x.able(a.forms[r.Coll].needs) {
				t.by = append(t.by, a)
			}
		}
		x.rules[r.Coll] = append(x.rules[r.Coll], t)
	}
	for c := range x.rules {
		if last := lastRule(plan.Coll(c)); last != nil {
			x.rules[c] = append(x.rules[c], *last)
		}
	}
}

// able reports whether the group has the properties that a form relies on.
func (x *launcher) able(n need) bool {
	return (x.linked || n&nvlink == 0) && (x.size <= 2 || n&pair == 0)
}

// Covers reports whether a rule is for operations of so many bytes in groups of so many ranks. Their tensors are registered or
// not, and a graph captures them or not. Covers does not say whether the algorithm has room for them.
func (r *Rule) Covers(ranks, bytes int, registered, captured bool) bool {
	return r.coversSize(ranks) && r.coversBytes(bytes) && (registered || !r.Registered) && !(r.Eager && captured)
}

func (r *Rule) coversSize(ranks int) bool { return r.MaxSize == 0 || ranks <= r.MaxSize }
