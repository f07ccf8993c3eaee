package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/plan"
)

// credited is a port on which frames are taken as long as there is credit.
type credited struct {
	scripted
	credit int
	steps  []int
	frames [][]byte
}

func (p *credited) Send(_, _, step, _ int, b []byte) (bool, error) {
	if p.credit == 0 {
		return false, nil
	}
	p.credit--
	p.steps = append(p.steps, step)
	p.frames = append(p.frames, append([]byte(nil), b...))
	return true, nil
}

// span is n elements of a buffer.
func span(b plan.Buf, off, n int) plan.Span { return plan.Span{Buf: b, Off: off, Len: n} }

// ahead starts rank 1 of 3 on the steps of one lane, with elements of one byte.
func ahead(port engine.Port, in, out []byte, steps ...plan.Step) *engine.Run {
	r := &engine.Run{}
	r.Start(&plan.Plan{Shape: plan.Shape{Coll: plan.AllGather, Rank: 1, Size: 3, Elem: 1}, Lanes: [][]plan.Step{steps}}, port, mixer{}, in, out, nil)
	return r
}

// advance lets frames of so many bytes arrive.
func advance(t *testing.T, r *engine.Run, port *credited, bytes ...int) {
	t.Helper()
	for _, n := range bytes {
		port.arrives = append(port.arrives, [2]int{n, n})
	}
	_, err := r.Advance()
	require.NoError(t, err)
}

// TestSendsRunAhead has sends leave before bytes have come on which they do not depend, and no other send.
func TestSendsRunAhead(t *testing.T) {
	port := &credited{scripted: scripted{limit: 64}, credit: 100}
	r := ahead(port, make([]byte, 8), make([]byte, 8),
		plan.Step{To: 2, From: 0, Src: span(plan.In, 0, 2), Dst: span(plan.Out, 0, 2)},
		plan.Step{To: 0, From: 2, Src: span(plan.In, 2, 3), Dst: span(plan.Out, 2, 2)},
		plan.RecvFrom(0, span(plan.Out, 4, 2)),
		plan.SendTo(2, span(plan.Out, 1, 2)), // of what the first two steps receive
		plan.SendTo(0, span(plan.In, 0, 1)),
	)
	advance(t, r, port)
	require.Equal(t, []int{0, 1}, port.steps)
	s := r.Standing()
	require.Equal(t, map[int]int64{0: 4, 2: 3}, s.Sent)
	require.Equal(t, []int{0}, s.From)
	require.Equal(t, []int{0}, r.Waiting())
	advance(t, r, port, 2)
	require.Equal(t, []int{0, 1}, port.steps, "the second step has not received")
	require.Equal(t, map[int]int64{0: 4, 2: 3}, r.Standing().Sent)
	advance(t, r, port, 2)
	require.Equal(t, []int{0, 1, 3, 4}, port.steps)
	require.False(t, r.Done())
	advance(t, r, port, 2)
	require.True(t, r.Done())
	require.Equal(t, []int{0, 1, 3, 4}, port.steps, "nothing is sent twice")
}

// TestSendsStay has sends wait for their turn: of what a step before them receives in the same memory, of much, and of nothing.
func TestSendsStay(t *testing.T) {
	const much = 32 << 10
	for name, src := range map[string]plan.Span{
		"received in place": span(plan.In, 1, 2), "large": span(plan.In, 2, much), "a barrier": span(plan.In, 2, 0),
	} {
		t.Run(name, func(t *testing.T) {
			port := &credited{scripted: scripted{limit: 2 * much}, credit: 100}
			memory := make([]byte, much+2)
			r := ahead(port, memory, memory,
				plan.Step{To: 2, From: 0, Src: span(plan.In, 2, 2), Dst: span(plan.Out, 0, 2)},
				plan.SendTo(2, src), plan.SendTo(2, span(plan.In, 2, 2)))
			advance(t, r, port)
			require.Equal(t, []int{0}, port.steps)
			advance(t, r, port, 2)
			require.Equal(t, []int{0, 1, 2}, port.steps)
			require.True(t, r.Done())
		})
	}
}

// TestStartsRunAhead has empty frames leave before their turn where they tell of their sender's start alone.
func TestStartsRunAhead(t *testing.T) {
	for starts, want := range map[bool][]int{false: {0}, true: {0, 1}} {
		port := &credited{scripted: scripted{limit: 64}, credit: 100}
		r := &engine.Run{}
		r.Start(&plan.Plan{Shape: plan.Shape{Coll: plan.Barrier, Rank: 1, Size: 3, Elem: 1}, Starts: starts,
			Lanes: [][]plan.Step{{{To: 2, From: 0}, {To: 0, From: 2}}}}, port, nil, nil, nil, nil)
		advance(t, r, port)
		require.Equal(t, want, port.steps, "starts: %t", starts)
		advance(t, r, port, 0, 0)
		require.True(t, r.Done())
		require.Equal(t, []int{0, 1}, port.steps)
	}
}

// eager is a port on which long sends run ahead.
type eager struct{ credited }

func (*eager) Ahead() int { return 1 << 20 }

// TestLongSendsRunAhead has long sends leave before bytes have come on which they do not depend, where the port wants them. Scaled ones stay.
func TestLongSendsRunAhead(t *testing.T) {
	const much = 32 << 10
	for weight, want := range map[float64][]int{1: {0, 1}, 3: {0}} {
		port := &eager{credited{scripted: scripted{limit: 2 * much}, credit: 100}}
		r := ahead(port, make([]byte, much+8), make([]byte, 16),
			plan.Step{To: 2, From: 0, Src: span(plan.In, 0, 8), Dst: span(plan.Out, 0, 8)},
			plan.Step{To: 2, From: 0, Src: span(plan.In, 8, much), Dst: span(plan.Out, 8, 8)})
		r.Weigh(weight)
		advance(t, r, &port.credited)
		require.Equal(t, want, port.steps)
		advance(t, r, &port.credited, 8, 8)
		require.Equal(t, []int{0, 1}, port.steps[:2])
		require.True(t, r.Done())
	}
}

// TestSendsAheadNeedCredit has a link refuse what runs ahead. The weighted input of each frame is scaled once for it.
func TestSendsAheadNeedCredit(t *testing.T) {
	port := &credited{scripted: scripted{limit: 64}, credit: 1}
	in := []byte("0123456789abcdef")
	r := ahead(port, in, make([]byte, 16),
		plan.Step{To: 2, From: 0, Src: span(plan.In, 0, 8), Dst: span(plan.Out, 0, 8)},
		plan.Step{To: 0, From: 2, Src: span(plan.In, 8, 8), Dst: span(plan.Out, 8, 8)})
	r.Weigh(3)
	advance(t, r, port)
	advance(t, r, port, 8)
	require.Equal(t, []int{0}, port.steps)
	port.credit = 1
	advance(t, r, port)
	require.Equal(t, []int{0, 1}, port.steps)
	var want [2][8]byte
	mixer{}.Scale(want[0][:], in[:8], 3)
	mixer{}.Scale(want[1][:], in[8:], 3)
	require.Equal(t, [][]byte{want[0][:], want[1][:]}, port.frames)
	advance(t, r, port, 8)
	require.True(t, r.Done())
}
