package pg_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

// at is the input of a rank at a position. Inputs are small whole numbers, so that sums are exact in any order. They differ
// with rank and position, so that a misplaced element shows.
func at(rank, i int) float32 { return float32((rank+1)*(i%13+1) + i%5) }

const period = 65 // of at

func filled(rank, n, from int) []float32 {
	x := make([]float32, n)
	for i := range min(n, period) {
		x[i] = at(rank, from+i)
	}
	return continued(x)
}

// continued repeats the first period of x over the rest of it.
func continued(x []float32) []float32 {
	for n := period; n < len(x); n *= 2 {
		copy(x[n:], x[:n])
	}
	return x
}

// sum is what a reduction over all ranks gives at positions [from, from+n).
func sum(size, n, from int) []float32 {
	x := make([]float32, n)
	for r := range size {
		for i := range min(n, period) {
			x[i] += at(r, from+i)
		}
	}
	return continued(x)
}

// equal is require.Equal without its cost where nothing is wrong.
func equal(t *testing.T, want, got []float32, say ...any) {
	t.Helper()
	if !slices.Equal(want, got) {
		require.Equal(t, want, got, say...)
		t.Fatal("not equal")
	}
}

var counts = []int{0, 1, 2, 7, 64, 1009, scaled(40_000)}

// scaled is less of something under the race detector, which makes everything ten times slower.
func scaled(n int) int {
	if underRace {
		return n / 8
	}
	return n
}

// collective runs one collective on a rank and checks the result against the definition.
type collective func(t *testing.T, g *pg.Group, n int)

var collectives = map[plan.Coll]collective{
	plan.AllReduce: func(t *testing.T, g *pg.Group, n int) {
		x := filled(g.Rank(), n, 0)
		require.NoError(t, g.AllReduce(t.Context(), colligo.Of(x), colligo.Sum))
		equal(t, sum(g.Size(), n, 0), x)
	},
	plan.Broadcast: func(t *testing.T, g *pg.Group, n int) {
		for root := range g.Size() {
			x := filled(g.Rank(), n, root)
			require.NoError(t, g.Broadcast(t.Context(), colligo.Of(x), root))
			equal(t, filled(root, n, root), x)
		}
	},
	plan.Reduce: func(t *testing.T, g *pg.Group, n int) {
		for root := range g.Size() {
			x := filled(g.Rank(), n, root)
			require.NoError(t, g.Reduce(t.Context(), colligo.Of(x), root, colligo.Sum))
			want := filled(g.Rank(), n, root)
			if g.Rank() == root {
				want = sum(g.Size(), n, root)
			}
			equal(t, want, x)
		}
	},
	plan.AllGather: func(t *testing.T, g *pg.Group, n int) {
		out := make([]float32, n*g.Size())
		require.NoError(t, g.AllGatherIntoTensor(t.Context(), colligo.Of(out), colligo.Of(filled(g.Rank(), n, 0))))
		var want []float32
		outs := make([][]float32, g.Size())
		for r := range outs { // part r has n+r elements
			want = append(want, filled(r, n, 0)...)
			outs[r] = make([]float32, n+r)
		}
		equal(t, want, out)
		require.NoError(t, g.AllGather(t.Context(), tensors(outs), colligo.Of(filled(g.Rank(), n+g.Rank(), 0))))
		for r := range outs {
			equal(t, filled(r, n+r, 0), outs[r])
		}
	},
	plan.ReduceScatter: func(t *testing.T, g *pg.Group, n int) {
		out := make([]float32, n)
		in := filled(g.Rank(), n*g.Size(), 0)
		require.NoError(t, g.ReduceScatterTensor(t.Context(), colligo.Of(out), colligo.Of(in), colligo.Sum))
		equal(t, sum(g.Size(), n, n*g.Rank()), out)
		equal(t, filled(g.Rank(), n*g.Size(), 0), in, "the input is only read")
		ins := make([][]float32, g.Size())
		for r := range ins {
			ins[r] = filled(g.Rank(), n+r, 100*r)
		}
		out = make([]float32, n+g.Rank())
		require.NoError(t, g.ReduceScatter(t.Context(), colligo.Of(out), tensors(ins), colligo.Sum))
		equal(t, sum(g.Size(), n+g.Rank(), 100*g.Rank()), out)
	},
	plan.AllToAll: func(t *testing.T, g *pg.Group, n int) {
		in, out := filled(g.Rank(), n*g.Size(), 0), make([]float32, n*g.Size())
		require.NoError(t, g.AllToAllSingle(t.Context(), colligo.Of(out), colligo.Of(in), nil, nil))
		want := []float32{}
		ins, outs := make([][]float32, g.Size()), make([][]float32, g.Size())
		for r := range g.Size() { // from rank a to rank b go n + (a+2b)%3 elements
			want = append(want, filled(r, n, n*g.Rank())...)
			ins[r] = filled(g.Rank(), n+(g.Rank()+2*r)%3, r)
			outs[r] = make([]float32, n+(r+2*g.Rank())%3)
		}
		equal(t, want, out)
		require.NoError(t, g.AllToAll(t.Context(), tensors(outs), tensors(ins)))
		for r := range outs {
			equal(t, filled(r, n+(r+2*g.Rank())%3, g.Rank()), outs[r])
		}
	},
	plan.Gather: func(t *testing.T, g *pg.Group, n int) {
		root := n % g.Size()
		var outs [][]float32
		if g.Rank() == root {
			outs = parts(g.Size(), n)
		}
		require.NoError(t, g.Gather(t.Context(), tensors(outs), colligo.Of(filled(g.Rank(), n, 0)), root))
		for r := range outs {
			equal(t, filled(r, n, 0), outs[r])
		}
	},
	plan.Scatter: func(t *testing.T, g *pg.Group, n int) {
		root := n % g.Size()
		var ins [][]float32
		if g.Rank() == root {
			for r := range g.Size() {
				ins = append(ins, filled(r, n, 0))
			}
		}
		out := make([]float32, n)
		require.NoError(t, g.Scatter(t.Context(), colligo.Of(out), tensors(ins), root))
		equal(t, filled(g.Rank(), n, 0), out)
	},
	plan.Barrier: func(t *testing.T, g *pg.Group, _ int) {
		require.NoError(t, g.Barrier(t.Context()))
	},
}

func parts(k, n int) [][]float32 {
	p := make([][]float32, k)
	for i := range p {
		p[i] = make([]float32, n)
	}
	return p
}

func tensors(xs [][]float32) []colligo.Tensor {
	var ts []colligo.Tensor
	for _, x := range xs {
		ts = append(ts, colligo.Of(x))
	}
	return ts
}

// TestCollectives runs every collective with every planner on every transport.
func TestCollectives(t *testing.T) {
	for _, transport := range []string{"sim", "shm", "tcp"} {
		for _, size := range []int{1, 2, 3, 4, 7, 8} {
			for coll, check := range collectives {
				for _, algo := range tuning.Algorithms(coll) {
					t.Run(fmt.Sprintf("transport=%s/size=%d/coll=%v/algo=%s", transport, size, coll, algo), func(t *testing.T) {
						needs(t, transport)
						t.Parallel()
						o := pgtest.Options{Transport: transport, Config: func(_ int, c *pg.Config) {
							c.Algo = map[string]string{coll.String(): algo}
						}}
						pgtest.RunWith(t, size, o, func(t *testing.T, g *pg.Group) {
							for _, n := range counts {
								check(t, g, n)
							}
						})
					})
				}
			}
		}
	}
}

// TestAsync starts operations without waiting in between; they run in order.
func TestAsync(t *testing.T) {
	pgtest.Run(t, 4, func(t *testing.T, g *pg.Group) {
		const k = 20
		xs := parts(k, 100)
		works := make([]*pg.Work, k)
		for i := range works {
			copy(xs[i], filled(g.Rank(), 100, i))
			works[i] = g.AllReduceAsync(t.Context(), colligo.Of(xs[i]), colligo.Sum)
		}
		require.NoError(t, g.Barrier(t.Context()), "a blocking call takes its place behind them")
		for i, w := range works {
			require.NoError(t, w.Err())
			require.NoError(t, w.Wait(context.Background()))
			equal(t, sum(4, 100, i), xs[i])
		}
	})
}
