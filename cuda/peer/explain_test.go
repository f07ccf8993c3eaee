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
	by := map[Algorithm]string{LL: ptx.AllReduceLL, LLTwoShot: ptx.AllReduceLLTwoShot, Tiles: ptx.AllReduceTiles,
		CopyRing: ptx.ReduceTwo, Fused: ptx.AllReduceFused, Sentinel: ptx.AllReduceSentinel, LL128: ptx.AllReduceLL128, LL128TwoShot: ptx.AllReduceLL128TwoShot}
	for _, algorithm := range []Algorithm{LL, LLTwoShot, CopyRing, Fused} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			o := small(algorithm)
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
					if err := first(r.g.Barrier(r.ctx),
						func() error { return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}) }); err != nil {
						return err
					}
					if !launched.has(by[c.Algorithm]) {
						return fmt.Errorf("%d elements: %v is explained, launched are %v", n, c, launched.names)
					}
				}
				return nil
			})
		})
	}
}

// TestExplainFitting explains what the table says and the symmetric heap has no room for.
func TestExplainFitting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		coll           plan.Coll
		bytes          int
		algorithm, fit Algorithm
	}{
		{plan.AllReduce, 1 << 10, LL, LL}, {plan.AllReduce, 1 << 30, LL, Tiles}, {plan.AllReduce, 1 << 10, CopyRing, Tiles},
		{plan.AllGather, 1 << 10, LL, LL}, {plan.AllGather, 64 << 20, LL, Tiles}, {plan.Reduce, 1 << 30, Tiles, Tiles},
		{plan.AllGather, 4 << 10, CopyRing, Rotation}, {plan.AllGather, 1 << 20, CopyRing, CopyRing},
		{plan.Broadcast, 1 << 20, LL128, Tiles},
	} {
		o := Options{Rules: []Rule{{Coll: c.coll, Algorithm: c.algorithm, Blocks: 1, Threads: 32}}}
		got, err := o.Explain(c.coll, 4, c.bytes, false)
		require.NoError(t, err)
		require.Equal(t, c.fit, got.Algorithm, "%v of %d bytes", c.coll, c.bytes)
	}
	for _, c := range []struct {
		bytes     int
		linked    bool
		algorithm Algorithm
	}{{1 << 10, true, LL}, {16 << 10, true, LL}, {256 << 10, true, LL128}, {1 << 20, true, Sentinel}, {8 << 10, false, LL}, {1 << 20, false, Chain}} {
		got, err := Options{}.Explain(plan.Broadcast, 4, c.bytes, c.linked)
		require.NoError(t, err)
		require.Equal(t, c.algorithm, got.Algorithm, "%d bytes, linked %v", c.bytes, c.linked)
	}
	for ranks, algorithm := range map[int]Algorithm{2: Fused, 3: Tiles} {
		o := Options{Rules: []Rule{{Coll: plan.ReduceScatter, Algorithm: Fused, Blocks: 2, Threads: 32}}}
		got, err := o.Explain(plan.ReduceScatter, ranks, 1<<30, true)
		require.NoError(t, err)
		require.Equal(t, algorithm, got.Algorithm, "%d ranks", ranks)
	}
	_, err := Options{}.Explain(plan.AllReduce, 9, 1, true)
	require.EqualError(t, err, "all_reduce of 1 bytes among 9 ranks: groups on devices have 1 to 8 ranks")
	_, err = Options{}.Explain(plan.Send, 2, 1, true)
	require.EqualError(t, err, "send follows no rule of the table")
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
