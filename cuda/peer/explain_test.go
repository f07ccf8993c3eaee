package peer

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// TestExplain holds what is explained against the kernels that are launched.
func TestExplain(t *testing.T) {
	t.Parallel()
	by := map[Way]string{Packets: ptx.AllReduceOneShot, TwoShot: ptx.AllReduceTwoShot, Tiles: ptx.AllReduceTiles,
		Ring: ptx.ReduceTwo, Follow: ptx.AllReduceFollow, Lines: ptx.AllReduceLines, Rows: ptx.AllReduceRows, RowsTwoShot: ptx.AllReduceRowsTwoShot}
	for _, way := range []Way{Packets, TwoShot, Ring, Follow} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			o := small(way)
			d, launched := spied(simulated(t, 2).Driver())
			onRanks(t, d, 2, 2, simHalf, o, func(r *rank) error {
				for _, n := range []int{1, 100, 10_000, 100_000, 250_000} {
					c, err := o.Explain(plan.AllReduce, 2, 4*n, true)
					if err != nil {
						return err
					}
					if err := r.g.Barrier(r.ctx); err != nil {
						return err
					}
					launched.clear()
					if err := first(r.g.Barrier(r.ctx), r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n})); err != nil {
						return err
					}
					if !launched.has(by[c.Way]) {
						return fmt.Errorf("%d elements: %v is explained, launched are %v", n, c, launched.names)
					}
				}
				return nil
			})
		})
	}
}

// TestExplainFitting explains what the table says and the heap has no room for.
func TestExplainFitting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		coll     plan.Coll
		bytes    int
		way, fit Way
	}{
		{plan.AllReduce, 1 << 10, Packets, Packets}, {plan.AllReduce, 1 << 30, Packets, Tiles}, {plan.AllReduce, 1 << 10, Ring, Tiles},
		{plan.AllGather, 1 << 10, Packets, Packets}, {plan.AllGather, 64 << 20, Packets, Tiles}, {plan.Reduce, 1 << 30, Tiles, Tiles},
		{plan.AllGather, 4 << 10, Ring, Turns}, {plan.AllGather, 1 << 20, Ring, Ring},
		{plan.Broadcast, 1 << 20, Rows, Tiles},
	} {
		o := Options{Choices: []Choice{{Coll: c.coll, Way: c.way, Blocks: 1, Threads: 32}}}
		got, err := o.Explain(c.coll, 4, c.bytes, false)
		require.NoError(t, err)
		require.Equal(t, c.fit, got.Way, "%v of %d bytes", c.coll, c.bytes)
	}
	for _, c := range []struct {
		bytes  int
		linked bool
		way    Way
	}{{1 << 10, true, Packets}, {16 << 10, true, Packets}, {256 << 10, true, Rows}, {1 << 20, true, Lines}, {8 << 10, false, Packets}, {1 << 20, false, Chain}} {
		got, err := Options{}.Explain(plan.Broadcast, 4, c.bytes, c.linked)
		require.NoError(t, err)
		require.Equal(t, c.way, got.Way, "%d bytes, linked %v", c.bytes, c.linked)
	}
	for ranks, way := range map[int]Way{2: Follow, 3: Tiles} {
		o := Options{Choices: []Choice{{Coll: plan.ReduceScatter, Way: Follow, Blocks: 2, Threads: 32}}}
		got, err := o.Explain(plan.ReduceScatter, ranks, 1<<30, true)
		require.NoError(t, err)
		require.Equal(t, way, got.Way, "%d ranks", ranks)
	}
	_, err := Options{}.Explain(plan.AllReduce, 9, 1, true)
	require.EqualError(t, err, "all_reduce of 1 bytes among 9 ranks: groups on devices have 1 to 8 ranks")
	_, err = Options{}.Explain(plan.Send, 2, 1, true)
	require.EqualError(t, err, "send follows no line of the table")
	_, err = Options{Memory: 1 << 20}.Explain(plan.AllReduce, 8, 1, true)
	require.ErrorContains(t, err, "too few for 8 ranks")
}

// spy remembers the names of kernels that were launched.
type spy struct {
	sync.Mutex
	of    map[cuda.Function]string
	names []string
}

func (s *spy) note(f cuda.Function) {
	s.Lock()
	defer s.Unlock()
	s.names = append(s.names, s.of[f])
}

func (s *spy) clear() {
	s.Lock()
	defer s.Unlock()
	s.names = nil
}

func (s *spy) has(name string) bool {
	s.Lock()
	defer s.Unlock()
	return slices.Contains(s.names, name)
}

// spied returns the driver with a spy on its launches.
func spied(driver *cuda.Driver) (*cuda.Driver, *spy) {
	d, s := *driver, &spy{of: map[cuda.Function]string{}}
	d.ModuleGetFunction = func(m cuda.Module, name string) (cuda.Function, cuda.Result) {
		f, r := driver.ModuleGetFunction(m, name)
		s.Lock()
		s.of[f] = name
		s.Unlock()
		return f, r
	}
	type launch = func(cuda.Function, uint32, uint32, uint32, cuda.Stream, unsafe.Pointer) cuda.Result
	on := func(launch launch) launch {
		return func(f cuda.Function, blocks, threads, shared uint32, st cuda.Stream, args unsafe.Pointer) cuda.Result {
			s.note(f)
			return launch(f, blocks, threads, shared, st, args)
		}
	}
	d.LaunchKernel = on(driver.LaunchKernel)
	d.GraphExecKernelNodeSetParams = func(e cuda.GraphExec, n cuda.GraphNode, f cuda.Function, blocks, threads, shared uint32, args unsafe.Pointer) cuda.Result {
		s.note(f)
		return driver.GraphExecKernelNodeSetParams(e, n, f, blocks, threads, shared, args)
	}
	if driver.LaunchAhead != nil {
		d.LaunchAhead = on(driver.LaunchAhead)
	}
	return &d, s
}
