package plantest

import (
	"fmt"

	"github.com/colligo-go/colligo/plan"
)

// compare checks all outputs, and that inputs are as they were where no output lies over them. Without sums, reductions
// are only compared between ranks.
func (m *machine) compare(sums bool) error {
	for r := range m.plans {
		in, out := m.bufs[r][plan.In], m.bufs[r][plan.Out]
		for i := range in {
			if in[i] != m.input[r][i] && !within(&in[i], out) {
				return fmt.Errorf("rank %d: element %d of the input has changed", r, i)
			}
		}
		for i := range out {
			if what := m.compareElement(r, i, sums); what != "" {
				return fmt.Errorf("rank %d: element %d of the output is %s", r, i, what)
			}
		}
	}
	return nil
}

func (m *machine) compareElement(r, i int, sums bool) string {
	coll, got := m.plans[r].Shape.Coll, m.bufs[r][plan.Out][i]
	switch {
	case sums || !coll.Reduces():
		if got != m.want(r, i) {
			return "wrong"
		}
	case coll == plan.AllReduce && got != m.bufs[0][plan.Out][i]:
		return "not reduced as on rank 0"
	}
	return ""
}

func within(p *uint64, b []uint64) bool {
	for i := range b {
		if p == &b[i] {
			return true
		}
	}
	return false
}

// want returns element i of rank r's output.
func (m *machine) want(r, i int) uint64 {
	s := m.plans[r].Shape
	switch s.Coll {
	case plan.AllReduce, plan.Reduce:
		return m.sum(i)
	case plan.ReduceScatter:
		return m.sum(s.PartOff(r) + i)
	case plan.Broadcast:
		return m.input[s.Root][i]
	case plan.Scatter:
		return m.input[s.Root][s.PartOff(r)+i]
	case plan.AllGather, plan.Gather:
		from := 0
		for i >= s.PartLen(from) {
			i -= s.PartLen(from)
			from++
		}
		return m.input[from][i]
	case plan.AllToAll:
		from := 0
		for i >= s.RecvLen(from) {
			i -= s.RecvLen(from)
			from++
		}
		return m.input[from][m.plans[from].Shape.PartOff(r)+i]
	}
	panic(fmt.Sprintf("no result of %v to compare", s.Coll))
}

// sum returns the finished sum of element i of all inputs. A single rank finishes nothing.
func (m *machine) sum(i int) uint64 {
	if len(m.plans) == 1 {
		return m.input[0][i]
	}
	total := uint64(0)
	for _, in := range m.input {
		total += in[i]
	}
	return total * finisher
}
