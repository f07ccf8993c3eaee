package plantest

import (
	"fmt"
	"math/rand/v2"

	"github.com/colligo-go/colligo/plan"
)

// finisher is what a Last step multiplies by, in the place of an average's division. It is odd, so that nothing is lost. It
// is not 1, so that a Last too many or too few shows.
const finisher = 0x9e3779b97f4a7c15

// Run executes the plans of all ranks on random numbers, in an order of steps drawn from the seed. It compares every output
// with what the collective says. It runs twice. Sums show what a result is made of. An operation that depends on the order
// of reduction shows whether all ranks reduce alike. A barrier is run, but nothing is compared. Plans that deadlock or leave
// their buffers are errors.
func Run(plans []*plan.Plan, inPlace bool, seed uint64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("plantest: seed %d: %v", seed, r)
		}
	}()
	sum := func(a, b uint64) uint64 { return a + b }
	ordered := func(a, b uint64) uint64 { return (a+b)*0xbf58476d1ce4e5b9 ^ a ^ b }
	for _, op := range []func(a, b uint64) uint64{sum, ordered} {
		m := newMachine(plans, inPlace, seed, op)
		if err := m.run(); err != nil {
			return fmt.Errorf("plantest: seed %d: %w", seed, err)
		}
		if err := m.compare(op(1, 2) == 3); err != nil {
			return fmt.Errorf("plantest: seed %d: %w", seed, err)
		}
	}
	return nil
}

// Outputs executes the plans once, with In and Out apart and an operation of the caller's choice, and returns all inputs
// and outputs by rank. Last is without effect.
func Outputs(plans []*plan.Plan, seed uint64, op func(a, b uint64) uint64) (in, out [][]uint64, err error) {
	m := newMachine(plans, false, seed, op)
	m.finish = 1
	if err := m.run(); err != nil {
		return nil, nil, fmt.Errorf("plantest: seed %d: %w", seed, err)
	}
	for _, bufs := range m.bufs {
		out = append(out, bufs[plan.Out])
	}
	return m.input, out, nil
}

// machine is the memory of all ranks and the place of each lane.
type machine struct {
	plans  []*plan.Plan
	rng    *rand.Rand
	op     func(a, b uint64) uint64
	finish uint64        // a Last step multiplies by it
	bufs   [][3][]uint64 // of each rank
	input  [][]uint64    // of each rank, as it was at the begin
	lanes  []*lane
}

// lane is one lane of one rank.
type lane struct {
	rank, index int
	steps       []plan.Step
	message     []uint64 // what the current step sends, if it was read early
	early       bool
	sent, got   bool
}

func newMachine(plans []*plan.Plan, inPlace bool, seed uint64, op func(a, b uint64) uint64) *machine {
	m := &machine{plans: plans, rng: rand.New(rand.NewPCG(seed, 1)), op: op, finish: finisher}
	for r, p := range plans {
		bufs := [3][]uint64{m.random(p.Shape.Len(plan.In)), m.random(p.Shape.Len(plan.Out)), m.random(p.Scratch)}
		m.input = append(m.input, append([]uint64(nil), bufs[plan.In]...))
		if inPlace {
			bufs = alias(p.Shape, bufs)
		}
		m.bufs = append(m.bufs, bufs)
		for i, steps := range p.Lanes {
			m.lanes = append(m.lanes, &lane{rank: r, index: i, steps: steps})
		}
	}
	for _, l := range m.lanes {
		m.begin(l)
	}
	return m
}

func (m *machine) random(n int) []uint64 {
	b := make([]uint64, n)
	for i := range b {
		b[i] = m.rng.Uint64()
	}
	return b
}

// alias puts In and Out into the same memory, as callers do.
func alias(s plan.Shape, bufs [3][]uint64) [3][]uint64 {
	in, out := bufs[plan.In], bufs[plan.Out]
	if s.Coll.Rooted() && s.Rank != s.Root {
		return bufs
	}
	switch s.Coll {
	case plan.AllReduce, plan.Reduce:
		bufs[plan.Out] = in
	case plan.AllGather, plan.Gather:
		own := out[s.PartOff(s.Rank):][:len(in)]
		copy(own, in)
		bufs[plan.In] = own
	case plan.ReduceScatter, plan.Scatter:
		bufs[plan.Out] = in[s.PartOff(s.Rank):][:len(out)]
	}
	return bufs
}

func (m *machine) at(rank int, s plan.Span) []uint64 { return m.bufs[rank][s.Buf][s.Off:][:s.Len] }

// begin draws whether what the step now begun sends is read at once or when the peer takes it: a link may do either.
func (m *machine) begin(l *lane) {
	l.sent, l.got, l.early = false, false, false
	if len(l.steps) > 0 && l.steps[0].To != plan.None && m.rng.IntN(2) == 0 {
		l.message, l.early = append([]uint64(nil), m.at(l.rank, l.steps[0].Src)...), true
	}
}

func (m *machine) run() error {
	for moved := true; moved; {
		moved = false
		m.rng.Shuffle(len(m.lanes), func(i, j int) { m.lanes[i], m.lanes[j] = m.lanes[j], m.lanes[i] })
		for _, l := range m.lanes {
			moved = m.try(l) || moved
		}
	}
	for _, l := range m.lanes {
		if len(l.steps) > 0 {
			return fmt.Errorf("rank %d lane %d has %d steps left", l.rank, l.index, len(l.steps))
		}
	}
	return nil
}

// try does a local step, or sends to a peer that waits for it.
func (m *machine) try(l *lane) bool {
	if len(l.steps) == 0 {
		return false
	}
	s := l.steps[0]
	if s.From == l.rank {
		m.arrive(l, m.at(l.rank, s.Src))
		l.steps = l.steps[1:]
		m.begin(l)
		return true
	}
	if s.To == plan.None || l.sent {
		return false
	}
	for _, p := range m.lanes {
		if p.rank == s.To && p.index == l.index && len(p.steps) > 0 && p.steps[0].From == l.rank && !p.got {
			if !l.early {
				l.message = append([]uint64(nil), m.at(l.rank, s.Src)...)
			}
			m.arrive(p, l.message)
			l.sent, p.got = true, true
			m.end(l)
			m.end(p)
			return true
		}
	}
	return false
}

func (m *machine) end(l *lane) {
	s := l.steps[0]
	if (s.To == plan.None || l.sent) && (s.From == plan.None || l.got) {
		l.steps = l.steps[1:]
		m.begin(l)
	}
}

// arrive writes what arrives for a step, element by element, from either end.
func (m *machine) arrive(l *lane, message []uint64) {
	s := l.steps[0]
	dst := m.at(l.rank, s.Dst)
	if len(message) != len(dst) {
		panic(fmt.Sprintf("rank %d receives %d elements for %d", l.rank, len(message), len(dst)))
	}
	backwards := m.rng.IntN(2) == 0
	for i := range dst {
		if backwards {
			i = len(dst) - 1 - i
		}
		x := message[i]
		if s.Reduce {
			x = m.op(m.at(l.rank, s.Acc)[i], x)
			if s.Last {
				x *= m.finish
			}
		}
		dst[i] = x
	}
}
