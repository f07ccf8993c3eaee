package engine_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/plan/plantest"
	"github.com/colligo-go/colligo/ring"
)

// scripted is a port on which one frame after another arrives and all sends succeed, unless it is told to fail.
type scripted struct {
	arrives              [][2]int // bytes of the frame, and of the sender's step
	sends, heads, bodies error
	limit                int
	sent                 []int
}

func (p *scripted) MaxFrame(int) int { return p.limit }

func (p *scripted) Send(_, _, _, _ int, b []byte) (bool, error) {
	p.sent = append(p.sent, len(b))
	return p.sends == nil, p.sends
}

func (p *scripted) Arrived(int, int) (n, total int, err error) {
	if p.heads != nil || len(p.arrives) == 0 {
		return -1, 0, p.heads
	}
	return p.arrives[0][0], p.arrives[0][1], nil
}

func (p *scripted) Body(_, _ int, dst []byte) ([]byte, bool, error) {
	if dst == nil {
		dst = make([]byte, p.arrives[0][0])
	}
	return dst, p.bodies == nil, p.bodies
}

func (p *scripted) Release(int, int) { p.arrives = p.arrives[1:] }

// twoSteps is a plan of rank 1 of 3. Its second lane has a step of its own before the one of interest. That one exchanges
// five elements of eight bytes with ranks 2 and 0.
func twoSteps() *plan.Plan {
	five := func(b plan.Buf) plan.Span { return plan.Span{Buf: b, Off: 2, Len: 5} }
	return &plan.Plan{Shape: plan.Shape{Coll: plan.AllReduce, Rank: 1, Size: 3, Count: 10, Elem: 8}, Lanes: [][]plan.Step{{}, {
		plan.CopyStep(1, five(plan.Out), five(plan.In)),
		{To: 2, From: 0, Src: five(plan.In), Dst: five(plan.Out), Acc: five(plan.In), Reduce: true},
	}}}
}

func start(p *plan.Plan, port engine.Port) *engine.Run {
	r := &engine.Run{}
	r.Start(p, port, mixer{}, make([]byte, 80), make([]byte, 80), nil)
	return r
}

func TestErrors(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		port scripted
		peer int
		says string
		is   error
	}{
		"send":               {scripted{sends: boom}, 2, "peer 2, lane 1, step 1: boom", boom},
		"head":               {scripted{heads: boom}, 0, "peer 0, lane 1, step 1: boom", boom},
		"body":               {scripted{arrives: [][2]int{{40, 40}}, bodies: boom}, 0, "peer 0, lane 1, step 1: boom", boom},
		"total too small":    {scripted{arrives: [][2]int{{32, 32}}}, 0, "the peer's step has 32 bytes, this rank's 40", colligo.ErrMismatch},
		"total too large":    {scripted{arrives: [][2]int{{40, 48}}}, 0, "the peer's step has 48 bytes, this rank's 40", colligo.ErrMismatch},
		"frame too large":    {scripted{arrives: [][2]int{{48, 40}}}, 0, "a frame of 48 bytes, 40 of 40 bytes still to come", colligo.ErrCorrupt},
		"second too large":   {scripted{arrives: [][2]int{{24, 40}, {24, 40}}}, 0, "a frame of 24 bytes, 16 of 40 bytes still to come", colligo.ErrCorrupt},
		"part of an element": {scripted{arrives: [][2]int{{24, 40}, {12, 40}}}, 0, "a frame of 12 bytes, 16 of 40", colligo.ErrCorrupt},
		"empty frame":        {scripted{arrives: [][2]int{{0, 40}}}, 0, "a frame of 0 bytes, 40 of 40", colligo.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			c.port.limit = 64
			run := start(twoSteps(), &c.port)
			_, err := run.Advance()
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, c.says)
			var at *engine.Error
			require.ErrorAs(t, err, &at)
			require.Equal(t, [3]int{c.peer, 1, 1}, [3]int{at.Peer, at.Lane, at.Step})
			require.False(t, run.Done())
		})
	}
}

// TestHalves has each half of an exchange step end without the other.
func TestHalves(t *testing.T) {
	port := &scripted{limit: 16, arrives: [][2]int{{8, 40}}}
	run := start(twoSteps(), port)
	moved, err := run.Advance()
	require.NoError(t, err)
	require.True(t, moved)
	require.Equal(t, []int{16, 16, 8}, port.sent, "frames of at most 16 bytes")
	require.False(t, run.Done(), "32 bytes are still to come")
	moved, err = run.Advance()
	require.NoError(t, err)
	require.False(t, moved)
	port.arrives = [][2]int{{24, 40}, {8, 40}, {40, 40}}
	moved, err = run.Advance()
	require.NoError(t, err)
	require.True(t, moved)
	require.True(t, run.Done())
	require.Len(t, port.arrives, 1, "the frame after the step's last is left alone")
	require.Len(t, port.sent, 3, "nothing is sent twice")
}

// TestEmptySteps has steps of no elements travel as empty frames.
func TestEmptySteps(t *testing.T) {
	none := plan.Span{Buf: plan.Out}
	p := &plan.Plan{Shape: plan.Shape{Coll: plan.Barrier, Size: 2, Elem: 1}, Lanes: [][]plan.Step{{{To: 1, From: 1, Src: none, Dst: none}}}}
	port := &scripted{limit: 64}
	run := &engine.Run{}
	run.Start(p, port, nil, nil, nil, nil)
	_, err := run.Advance()
	require.NoError(t, err)
	require.False(t, run.Done(), "the peer's frame has not come")
	port.arrives = [][2]int{{0, 0}}
	_, err = run.Advance()
	require.NoError(t, err)
	require.True(t, run.Done())
	require.Equal(t, []int{0}, port.sent)
}

// slot is a port between two ranks with one frame of credit on a lane; it allocates nothing.
type slot struct {
	lanes *[2][2]struct {
		full     bool
		n, total int
		data     [1024]byte
	} // by receiver
	rank int
}

func (s *slot) MaxFrame(int) int { return 1024 }

func (s *slot) Send(peer, lane, _, total int, p []byte) (bool, error) {
	f := &s.lanes[peer][lane]
	if f.full {
		return false, nil
	}
	f.full, f.n, f.total = true, len(p), total
	copy(f.data[:], p)
	return true, nil
}

func (s *slot) Arrived(_, lane int) (n, total int, err error) {
	if f := &s.lanes[s.rank][lane]; f.full {
		return f.n, f.total, nil
	}
	return -1, 0, nil
}

func (s *slot) Body(_, lane int, dst []byte) ([]byte, bool, error) {
	f := &s.lanes[s.rank][lane]
	if dst == nil {
		return f.data[:f.n], true, nil
	}
	copy(dst, f.data[:f.n])
	return dst, true, nil
}

func (s *slot) Release(_, lane int) { s.lanes[s.rank][lane].full = false }

// TestWarmRunsDoNotAllocate holds invariant 1.
func TestWarmRunsDoNotAllocate(t *testing.T) {
	plans, err := plantest.Plans(ring.AllReduce, plan.Shape{Coll: plan.AllReduce, Size: 2, Count: 5000, Elem: 8, Lanes: 2})
	require.NoError(t, err)
	ports := [2]*slot{}
	ports[0] = &slot{lanes: new([2][2]struct {
		full     bool
		n, total int
		data     [1024]byte
	})}
	ports[1] = &slot{lanes: ports[0].lanes, rank: 1}
	var runs [2]engine.Run
	bufs := [2][]byte{make([]byte, 40_000), make([]byte, 40_000)}
	scratch := [2][]byte{make([]byte, 8*plans[0].Scratch), make([]byte, 8*plans[1].Scratch)}
	round := func() {
		for r := range runs {
			runs[r].Reset()
			runs[r].Start(plans[r], ports[r], mixer{}, bufs[r], bufs[r], scratch[r])
			runs[r].Weigh(3)
		}
		for !runs[0].Done() || !runs[1].Done() {
			for r := range runs {
				if _, err := runs[r].Advance(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	require.Zero(t, testing.AllocsPerRun(10, round))
}
