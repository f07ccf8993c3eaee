package plantest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/colligo-go/colligo/plan"
)

// Doubt puts plan.Check to the test with n mutants of plans that are right: whatever it still finds right must run
// right. It returns how many of the mutants were found wrong.
func Doubt(plans []*plan.Plan, inPlace bool, n int, seed uint64) (found int, err error) {
	check := plan.Check
	if inPlace {
		check = plan.CheckInPlace
	}
	for i := range n {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		mutant, what := Mutate(plans, rng)
		if check(mutant) != nil {
			found++
			continue
		}
		for run := range uint64(4) {
			if err := Run(mutant, inPlace, run); err != nil {
				return found, fmt.Errorf("seed %d mutant %d (%s) of %v passes the check: %w", seed, i, what, plans[0].Shape, err)
			}
		}
	}
	return found, nil
}

// Mutate returns a copy of the plans with one random change in a step, and what it is. Plans without steps have no
// mutants but themselves.
func Mutate(plans []*plan.Plan, rng *rand.Rand) (mutant []*plan.Plan, what string) {
	var filled [][2]int
	for r, p := range plans {
		c := *p
		c.Lanes = nil
		for l, steps := range p.Lanes {
			c.Lanes = append(c.Lanes, slices.Clone(steps))
			if len(steps) > 0 {
				filled = append(filled, [2]int{r, l})
			}
		}
		mutant = append(mutant, &c)
	}
	if len(filled) == 0 {
		return mutant, "no steps"
	}
	at := filled[rng.IntN(len(filled))]
	p := mutant[at[0]]
	i := rng.IntN(len(p.Lanes[at[1]]))
	kind := rng.IntN(len(mutations))
	mutations[kind](rng, p, at[1], i)
	return mutant, fmt.Sprintf("change %d in rank %d lane %d step %d", kind, at[0], at[1], i)
}

// mutations change step i of one lane of a plan.
var mutations = [...]func(rng *rand.Rand, p *plan.Plan, lane, i int){
	func(_ *rand.Rand, p *plan.Plan, lane, i int) { p.Lanes[lane] = slices.Delete(p.Lanes[lane], i, i+1) },
	func(_ *rand.Rand, p *plan.Plan, lane, i int) {
		p.Lanes[lane] = slices.Insert(p.Lanes[lane], i, p.Lanes[lane][i])
	},
	func(rng *rand.Rand, p *plan.Plan, lane, i int) {
		j := rng.IntN(len(p.Lanes[lane]))
		p.Lanes[lane][i], p.Lanes[lane][j] = p.Lanes[lane][j], p.Lanes[lane][i]
	},
	func(rng *rand.Rand, p *plan.Plan, lane, i int) { // to the end of any lane
		s, to := p.Lanes[lane][i], rng.IntN(len(p.Lanes))
		p.Lanes[lane] = slices.Delete(p.Lanes[lane], i, i+1)
		p.Lanes[to] = append(p.Lanes[to], s)
	},
	func(_ *rand.Rand, p *plan.Plan, lane, i int) { // an exchange becomes a receive and a send
		s := p.Lanes[lane][i]
		if s.To != plan.None && s.From != plan.None {
			recv := s
			recv.To, recv.Src = plan.None, plan.Span{}
			p.Lanes[lane] = slices.Replace(p.Lanes[lane], i, i+1, recv, plan.SendTo(s.To, s.Src))
		}
	},
	func(_ *rand.Rand, p *plan.Plan, lane, i int) { // and a send and a receive
		s := p.Lanes[lane][i]
		if s.To != plan.None && s.From != plan.None {
			recv := s
			recv.To, recv.Src = plan.None, plan.Span{}
			p.Lanes[lane] = slices.Replace(p.Lanes[lane], i, i+1, plan.SendTo(s.To, s.Src), recv)
		}
	},
	func(rng *rand.Rand, p *plan.Plan, lane, i int) { p.Lanes[lane][i].To = rng.IntN(p.Shape.Size+1) - 1 },
	func(rng *rand.Rand, p *plan.Plan, lane, i int) { p.Lanes[lane][i].From = rng.IntN(p.Shape.Size+1) - 1 },
	func(_ *rand.Rand, p *plan.Plan, lane, i int) { p.Lanes[lane][i].Last = !p.Lanes[lane][i].Last },
	func(_ *rand.Rand, p *plan.Plan, lane, i int) {
		s := &p.Lanes[lane][i]
		if s.Reduce = !s.Reduce; s.Reduce {
			s.Acc = s.Dst
		} else {
			s.Acc, s.Last = plan.Span{}, false
		}
	},
	func(_ *rand.Rand, p *plan.Plan, lane, i int) { // the operands change places, where they can
		if s := &p.Lanes[lane][i]; s.Local(p.Shape.Rank) && s.Reduce {
			s.Src, s.Acc = s.Acc, s.Src
		}
	},
	func(rng *rand.Rand, p *plan.Plan, lane, i int) { pick(rng, &p.Lanes[lane][i]).Off += 1 - 2*rng.IntN(2) },
	func(rng *rand.Rand, p *plan.Plan, lane, i int) { pick(rng, &p.Lanes[lane][i]).Len += 1 - 2*rng.IntN(2) },
	func(rng *rand.Rand, p *plan.Plan, lane, i int) {
		pick(rng, &p.Lanes[lane][i]).Buf = plan.Buf(rng.IntN(3))
	},
	func(rng *rand.Rand, p *plan.Plan, lane, i int) { // all spans move
		d := 1 - 2*rng.IntN(2)
		s := &p.Lanes[lane][i]
		for _, span := range []*plan.Span{&s.Src, &s.Dst, &s.Acc} {
			span.Off += d * min(span.Len, 1)
		}
	},
}

func pick(rng *rand.Rand, s *plan.Step) *plan.Span {
	return []*plan.Span{&s.Src, &s.Dst, &s.Acc}[rng.IntN(3)]
}
