package parity

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
)

var streamPrograms = flag.Int("parity.streams", 3, "how many random programs TestStreams runs on each medium")

// TestStreams runs random programs on three streams of the caller's and in two groups. Some calls are asynchronous, and graphs capture others.
// A program launches its graphs again and again. The test computes by itself what each tensor must hold, and compares. The simulator looks
// for races meanwhile. The test runs on devices alone, for the CPU has no streams.
func TestStreams(t *testing.T) {
	beside(t)
	for seed := range uint64(*streamPrograms) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			beside(t)
			size := 2 + int(seed%3)
			for _, medium := range deviceMedia(t, size) {
				t.Run("medium="+medium, func(t *testing.T) {
					beside(t)
					jobOf(t, medium, size, func(m *mortal) {
						captures := !strings.HasSuffix(medium, "staged")
						(&streaming{mortal: m, Rand: rand.New(rand.NewPCG(seed, 5)), captures: captures}).run()
					})
				})
			}
		})
	}
}

// streaming is one rank of a random program.
type streaming struct {
	*mortal
	*rand.Rand // with the same numbers on all ranks
	captures   bool
	groups     []*pg.Group
	lanes      []*lane
}

// lane is a stream of the caller's, and what is used on it alone.
type lane struct {
	stream    cuda.Stream
	ctx       context.Context
	cells     []*cell
	graphs    []launchable
	capturing *launchable // nil while nothing is captured
}

// cell is a tensor, and what each rank's holds.
type cell struct {
	x       colligo.Tensor
	values  []int64
	pending *pg.Work // that has it
}

// launchable is a graph, and what a launch does to the cells.
type launchable struct {
	graph cuda.GraphExec
	does  []func()
}

func (s *streaming) run() {
	require.NoError(s.t, s.SetTimeout(30*time.Second))
	all := []int{0, 1, 2, 3}[:s.Size()]
	other, err := s.NewGroup(s.ctx, all)
	require.NoError(s.t, err)
	s.groups = []*pg.Group{s.Group, other}
	for i := range 3 {
		l := &lane{}
		s.enter(func(th cuda.Thread) (err error) { l.stream, err = th.NewStream(0); return err })
		l.ctx = peer.OnStream(s.ctx, l.stream)
		for k := range 4 {
			c := &cell{}
			for r := range s.Size() {
				c.values = append(c.values, int64(1+1000*r+100*i+10*k))
			}
			c.x = full(s.rank, []int{1, 300, 5000, 30_000}[s.IntN(4)], c.values[s.Rank()])
			l.cells = append(l.cells, c)
		}
		s.lanes = append(s.lanes, l)
	}
	for _, g := range s.groups { // what is captured later has been called before
		require.NoError(s.t, g.AllReduce(s.ctx, full(s.rank, 1, int64(1)), colligo.Sum))
		require.NoError(s.t, s.ring(s.ctx, g, full(s.rank, 1, int64(1)), full(s.rank, 1, int64(1))).Wait(s.ctx))
	}
	for range 60 {
		l := s.lanes[s.IntN(len(s.lanes))]
		switch {
		case s.captures && s.IntN(10) == 0:
			s.capture(l)
		case len(l.graphs) > 0 && s.IntN(8) == 0:
			s.launch(l, l.graphs[s.IntN(len(l.graphs))], 1)
		case s.IntN(8) == 0:
			s.check(l.cells[s.IntN(len(l.cells))], l)
		default:
			s.call(l)
		}
	}
	for _, l := range s.lanes {
		for _, c := range l.cells {
			s.check(c, l)
		}
	}
	for _, l := range s.lanes { // before the groups are closed, for which NCCL waits until no graph has their calls
		for _, g := range l.graphs {
			s.enter(func(th cuda.Thread) error { return th.DestroyGraph(g.graph) })
		}
	}
	require.NoError(s.t, s.Barrier(s.t.Context()))
	require.NoError(s.t, other.Close())
	require.NoError(s.t, s.Close()) // for until then the group may look at the streams
	for _, l := range s.lanes {
		s.enter(func(th cuda.Thread) error { return th.DestroyStream(l.stream) })
	}
}

// ring sends x to the next rank and receives y from the one before.
func (s *streaming) ring(ctx context.Context, g *pg.Group, x, y colligo.Tensor) *pg.Work {
	n, me := s.Size(), s.Rank()
	return g.CoalesceAsync(ctx, func(b *pg.Batch) error {
		b.Send(x, (me+1)%n, 0)
		b.Recv(y, (me+n-1)%n, 0)
		return nil
	})
}

// free has a stream wait for the call that has a cell.
func (s *streaming) free(c *cell, l *lane) {
	if c.pending != nil {
		require.NoError(s.t, c.pending.Wait(l.ctx))
		c.pending = nil
	}
}

// does notes what a call does: now, or at each launch of the graph that captures it.
func (l *lane) does(f func()) {
	if l.capturing != nil {
		l.capturing.does = append(l.capturing.does, f)
		return
	}
	f()
}

// call makes a random call on a stream.
func (s *streaming) call(l *lane) {
	g, c := s.groups[s.IntN(2)], l.cells[s.IntN(len(l.cells))]
	s.free(c, l)
	var w *pg.Work
	switch s.IntN(3) {
	case 0:
		w = g.AllReduceAsync(l.ctx, c.x, colligo.Sum)
		l.does(func() {
			sum := int64(0)
			for _, v := range c.values {
				sum += v
			}
			for r := range c.values {
				c.values[r] = sum
			}
		})
	case 1:
		root := s.IntN(s.Size())
		w = g.BroadcastAsync(l.ctx, c.x, root)
		l.does(func() {
			for r := range c.values {
				c.values[r] = c.values[root]
			}
		})
	default:
		i := slices.IndexFunc(l.cells, func(to *cell) bool { return to != c && to.x.Len() == c.x.Len() })
		if i < 0 {
			return
		}
		to := l.cells[i]
		s.free(to, l)
		w = s.ring(l.ctx, g, c.x, to.x)
		l.does(func() {
			for r := range to.values {
				to.values[(r+1)%s.Size()] = c.values[r]
			}
		})
		to.pending = w
	}
	if c.pending = w; s.IntN(2) == 0 || l.capturing != nil {
		s.free(c, l)
	}
}

// capture captures calls of a stream, and launches the graph some times.
func (s *streaming) capture(l *lane) {
	for _, c := range l.cells {
		s.free(c, l)
	}
	l.capturing = &launchable{}
	th, err := s.gpu.Enter()
	require.NoError(s.t, err)
	require.NoError(s.t, th.BeginCapture(l.stream, cuda.CaptureThreadLocal))
	for range 1 + s.IntN(4) {
		s.call(l)
	}
	for _, c := range l.cells {
		s.free(c, l)
	}
	l.capturing.graph, err = th.EndCapture(l.stream)
	th.Leave()
	require.NoError(s.t, err)
	g := *l.capturing
	l.capturing = nil
	l.graphs = append(l.graphs, g)
	s.launch(l, g, s.IntN(4))
}

// launch launches a graph some times, between everything that comes before and after it on any stream.
func (s *streaming) launch(l *lane, g launchable, times int) {
	for _, o := range s.lanes {
		for _, c := range o.cells {
			s.free(c, o)
		}
		s.enter(func(th cuda.Thread) error { return th.Synchronize(o.stream) })
	}
	for range times {
		s.enter(func(th cuda.Thread) error { return th.LaunchGraph(g.graph, l.stream) })
		for _, f := range g.does {
			f()
		}
	}
	s.enter(func(th cuda.Thread) error { return th.Synchronize(l.stream) })
}

// check compares what a cell holds.
func (s *streaming) check(c *cell, l *lane) {
	s.free(c, l)
	s.enter(func(th cuda.Thread) error { return th.Synchronize(l.stream) })
	equal(s.t, repeat(c.x.Len(), c.values[s.Rank()]), values[int64](s.rank, c.x))
}
