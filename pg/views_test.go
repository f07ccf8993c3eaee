package pg_test

import (
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// columns is a view of n elements, every second of a slice; what lies between is -1.
func columns(x []float32) colligo.Tensor {
	n := len(x) / 2
	return colligo.Of(x).Strided(0, []int{n}, []int{2})
}

func spread(x []float32) []float32 {
	wide := make([]float32, 2*len(x))
	for i := range x {
		wide[2*i], wide[2*i+1] = x[i], -1
	}
	return wide
}

// TestStrided gives every collective tensors with gaps; the gaps stay as they are.
func TestStrided(t *testing.T) {
	const n = 50
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		ctx, me := t.Context(), g.Rank()
		x := spread(filled(me, n, 0))
		require.NoError(t, g.AllReduce(ctx, columns(x), colligo.Sum))
		require.Equal(t, spread(sum(3, n, 0)), x)

		x = spread(filled(me, n, 0))
		require.NoError(t, g.AllReduce(ctx, columns(x), colligo.PremulSum(2)))
		twice := sum(3, n, 0)
		for i := range twice {
			twice[i] *= 2
		}
		require.Equal(t, spread(twice), x)

		x = spread(filled(me, n, 0))
		require.NoError(t, g.Broadcast(ctx, columns(x), 1))
		require.Equal(t, spread(filled(1, n, 0)), x)

		x = spread(filled(me, n, 0))
		require.NoError(t, g.Reduce(ctx, columns(x), 2, colligo.Sum))
		if me == 2 {
			require.Equal(t, spread(sum(3, n, 0)), x)
		} else {
			require.Equal(t, spread(filled(me, n, 0)), x)
		}

		wide := spread(make([]float32, 3*n))
		require.NoError(t, g.AllGatherIntoTensor(ctx, columns(wide), columns(spread(filled(me, n, 0)))))
		var want []float32
		for r := range 3 {
			want = append(want, filled(r, n, 0)...)
		}
		require.Equal(t, spread(want), wide)

		x = spread(make([]float32, n))
		require.NoError(t, g.ReduceScatterTensor(ctx, columns(x), columns(spread(filled(me, 3*n, 0))), colligo.Sum))
		require.Equal(t, spread(sum(3, n, me*n)), x)

		wide = spread(make([]float32, 3*n))
		require.NoError(t, g.AllToAllSingle(ctx, columns(wide), columns(spread(filled(me, 3*n, 0))), nil, nil))
		want = want[:0]
		for r := range 3 {
			want = append(want, filled(r, n, me*n)...)
		}
		require.Equal(t, spread(want), wide)

		x = spread(filled(me, n, 0))
		if me == 0 {
			require.NoError(t, g.Send(ctx, columns(x), 1, 0))
		} else if me == 1 {
			require.NoError(t, g.Recv(ctx, columns(x), 0, 0))
			require.Equal(t, spread(filled(0, n, 0)), x)
		}
	})
}

// lists makes k tensors in each of the ways in which they can lie in memory. They lie one after the other in one allocation,
// apart in one allocation, the other way round, with gaps, or each for itself.
var lists = map[string]func(lens []int) [][]float32{
	"adjacent": func(lens []int) [][]float32 { return cut(lens, 0, false) },
	"apart":    func(lens []int) [][]float32 { return cut(lens, 3, false) },
	"reversed": func(lens []int) [][]float32 { return cut(lens, 0, true) },
	"own": func(lens []int) [][]float32 {
		xs := make([][]float32, len(lens))
		for i, n := range lens {
			xs[i] = make([]float32, n)
		}
		return xs
	},
}

func cut(lens []int, gap int, reversed bool) [][]float32 {
	total := 0
	for _, n := range lens {
		total += n + gap
	}
	all, xs := make([]float32, total), make([][]float32, len(lens))
	for i := range lens {
		if reversed {
			i = len(lens) - 1 - i
		}
		xs[i], all = all[:lens[i]:lens[i]], all[lens[i]+gap:]
	}
	return xs
}

func fill(xs [][]float32, f func(i int) []float32) [][]float32 {
	for i := range xs {
		copy(xs[i], f(i))
	}
	return xs
}

// TestLists runs the collectives that take lists on lists of every kind, even and uneven, with empty parts.
func TestLists(t *testing.T) {
	for name, list := range lists {
		for _, lens := range [][]int{{5, 5, 5, 5}, {0, 0, 0, 0}, {4, 0, 7, 1}, {0, 9, 0, 0}, {0, 0, 3, 3}} {
			t.Run(name, func(t *testing.T) {
				pgtest.Run(t, 4, func(t *testing.T, g *pg.Group) { listCollectives(t, g, list, lens) })
			})
		}
	}
}

func listCollectives(t *testing.T, g *pg.Group, list func([]int) [][]float32, lens []int) {
	ctx, me := t.Context(), g.Rank()
	same := func(want func(r int) []float32, got [][]float32) {
		for r := range got {
			require.Equal(t, want(r), got[r])
		}
	}
	outs := list(lens)
	require.NoError(t, g.AllGather(ctx, tensors(outs), colligo.Of(filled(me, lens[me], 0))))
	same(func(r int) []float32 { return filled(r, lens[r], 0) }, outs)

	out := make([]float32, lens[me])
	ins := fill(list(lens), func(r int) []float32 { return filled(me, lens[r], 10*r) })
	require.NoError(t, g.ReduceScatter(ctx, colligo.Of(out), tensors(ins), colligo.Sum))
	require.Equal(t, sum(4, lens[me], 10*me), out)
	require.NoError(t, g.ReduceScatter(ctx, colligo.Of(out), tensors(ins), colligo.PremulSum(1)))
	require.Equal(t, sum(4, lens[me], 10*me), out)
	same(func(r int) []float32 { return filled(me, lens[r], 10*r) }, ins)

	// From rank a to rank b go lens[(a+b)%4] elements.
	mine := make([]int, 4)
	for r := range mine {
		mine[r] = lens[(me+r)%4]
	}
	ins, outs = fill(list(mine), func(r int) []float32 { return filled(me, mine[r], r) }), list(mine)
	require.NoError(t, g.AllToAll(ctx, tensors(outs), tensors(ins)))
	same(func(r int) []float32 { return filled(r, mine[r], me) }, outs)

	for root := range 4 {
		var outs, ins []colligo.Tensor
		gathered, scattered := list(lens), list(lens)
		if me == root {
			outs = tensors(gathered)
			ins = tensors(fill(scattered, func(r int) []float32 { return filled(root, lens[r], r) }))
		}
		require.NoError(t, g.GatherV(ctx, outs, colligo.Of(filled(me, lens[me], 0)), lens, root))
		if me == root {
			same(func(r int) []float32 { return filled(r, lens[r], 0) }, gathered)
		}
		out := make([]float32, lens[me])
		require.NoError(t, g.ScatterV(ctx, colligo.Of(out), ins, lens, root))
		require.Equal(t, filled(root, lens[me], me), out)
	}
}

// TestInPlace uses this rank's part of the whole tensor as its own tensor.
func TestInPlace(t *testing.T) {
	const n, size = 300, 4
	for i := range passes {
		pgtest.RunWith(t, size, pgtest.Options{Config: algorithms(i)}, func(t *testing.T, g *pg.Group) {
			ctx, me := t.Context(), g.Rank()
			all := make([]float32, n*size)
			own := all[me*n:][:n]
			copy(own, filled(me, n, 0))
			require.NoError(t, g.AllGatherIntoTensor(ctx, colligo.Of(all), colligo.Of(own)))
			for r := range size {
				require.Equal(t, filled(r, n, 0), append([]float32(nil), all[r*n:][:n]...))
			}
			for _, op := range []colligo.ReduceOp{colligo.Sum, colligo.PremulSum(1), colligo.Max} {
				copy(all, filled(me, n*size, 0))
				require.NoError(t, g.ReduceScatterTensor(ctx, colligo.Of(own), colligo.Of(all), op))
				if op != colligo.Max {
					require.Equal(t, sum(size, n, me*n), append([]float32(nil), own...))
				}
				rest, want := append([]float32(nil), all...), filled(me, n*size, 0)
				copy(rest[me*n:], want[me*n:][:n])
				require.Equal(t, want, rest, "what is not the output is only read")
			}
		})
	}
}

// TestListsInPlace gives lists that share memory, whether their tensors are neighbours or not.
func TestListsInPlace(t *testing.T) {
	const n, size = 300, 4
	for i := range passes {
		for gap := range 2 {
			pgtest.RunWith(t, size, pgtest.Options{Config: algorithms(i)}, func(t *testing.T, g *pg.Group) {
				ctx, me, next := t.Context(), g.Rank(), (g.Rank()+1)%size
				memory := make([]float32, size*(n+gap))
				xs := make([][]float32, size)
				for r := range xs {
					xs[r] = memory[r*(n+gap):][:n]
				}
				ts := tensors(xs)
				fill(xs, func(r int) []float32 { return filled(me, n, r) })
				require.NoError(t, g.AllToAll(ctx, ts, ts))
				for r := range xs {
					equal(t, filled(r, n, me), xs[r], "all_to_all, rank %d", r)
				}
				copy(xs[next], filled(me, n, 0))
				require.NoError(t, g.AllGather(ctx, ts, ts[next]))
				for r := range xs {
					equal(t, filled(r, n, 0), xs[r], "all_gather, rank %d", r)
				}
				fill(xs, func(r int) []float32 { return filled(me, n, r) })
				require.NoError(t, g.ReduceScatter(ctx, ts[next], ts, colligo.Sum))
				equal(t, sum(size, n, me), xs[next], "reduce_scatter")
			})
		}
	}
}

// TestPremulInPlaceReadsTheRest scales no more than the output where both begin at one address.
func TestPremulInPlaceReadsTheRest(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		all := []float32{1, 2, 3, 4}
		own := all[2*g.Rank():][:2]
		require.NoError(t, g.ReduceScatterTensor(t.Context(), colligo.Of(own), colligo.Of(all), colligo.PremulSum(10)))
		want := [][]float32{{20, 40, 3, 4}, {1, 2, 60, 80}}
		require.Equal(t, want[g.Rank()], all)
	})
}

// neighbours returns two allocations that lie side by side.
func neighbours(t *testing.T, n int) [2][]float32 {
	t.Helper()
	var all [][]float32
	for range 1000 {
		x := make([]float32, n)
		for _, y := range all {
			if uintptr(unsafe.Pointer(&y[0]))+uintptr(4*n) == uintptr(unsafe.Pointer(&x[0])) {
				return [2][]float32{y, x}
			}
		}
		all = append(all, x)
	}
	t.Fatal("no two allocations are neighbours")
	return [2][]float32{}
}

// TestNeighbours sends a list whose tensors are allocations of their own that happen to be adjacent, and which only the
// pending operation refers to. They stay until it is done, and the race detector has nothing against it.
func TestNeighbours(t *testing.T) {
	const n = 1024
	looked := make(chan struct{})
	look := sync.OnceFunc(func() { close(looked) })
	pgtest.RunWith(t, 2, pgtest.Options{RealTime: true}, func(t *testing.T, g *pg.Group) {
		outs, gone := neighbours(t, n), make(chan bool, 2)
		start := func() *pg.Work {
			ins := neighbours(t, n)
			for i := range ins {
				copy(ins[i], filled(g.Rank(), n, i))
				runtime.AddCleanup(&ins[i][0], func(int) { gone <- true }, i)
			}
			return g.AllToAllAsync(t.Context(), tensors(outs[:]), tensors(ins[:]))
		}
		if g.Rank() == 1 {
			<-looked // until then rank 0 is at it
		} else {
			defer look()
		}
		w := start()
		if g.Rank() == 0 {
			runtime.GC()
			select {
			case <-gone:
				t.Error("memory of a pending operation is gone")
			case <-time.After(10 * time.Millisecond):
			}
			look()
		}
		require.NoError(t, w.Wait(t.Context()))
		for r := range outs {
			require.Equal(t, filled(r, n, g.Rank()), outs[r])
		}
	})
}
