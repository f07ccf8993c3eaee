package pg_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// notInBlocks are the calls of Group that have an asynchronous form and are not on Batch. The reasons are in Batch's comment.
var notInBlocks = map[string]bool{"Barrier": true, "RecvAny": true, "Coalesce": true}

// methods returns the exported methods of a type by name.
func methods(of any) map[string]reflect.Method {
	all := map[string]reflect.Method{}
	t := reflect.TypeOf(of)
	for i := range t.NumMethod() {
		all[t.Method(i).Name] = t.Method(i)
	}
	return all
}

// TestBatchIsComplete finds on Batch every call of Group that has an asynchronous form, with the same arguments but for the
// context.
func TestBatchIsComplete(t *testing.T) {
	group, batch := methods(&pg.Group{}), methods(&pg.Batch{})
	for name, m := range group {
		_, async := group[name+"Async"]
		if !async || notInBlocks[name] || strings.HasSuffix(name, "Coalesced") {
			require.NotContains(t, batch, name)
			continue
		}
		b, ok := batch[name]
		require.True(t, ok, "Batch has no %s", name)
		delete(batch, name)
		require.Zero(t, b.Type.NumOut(), name)
		require.Equal(t, m.Type.NumIn()-1, b.Type.NumIn(), name)
		for i := 1; i < b.Type.NumIn(); i++ {
			require.Equal(t, m.Type.In(i+1), b.Type.In(i), "argument %d of %s", i, name)
		}
	}
	require.Empty(t, batch, "Batch has calls that Group has not")
	for name := range notInBlocks {
		require.Contains(t, group, name+"Async")
	}
}

// counted are the elements of each rank's part where they differ, none on rank 1.
func counted(size, n int) (counts []int) {
	for r := range size {
		counts = append(counts, n*(r+1)*((r+2)%3%2))
	}
	return counts
}

// uneven returns zeroed memory for parts of counted lengths.
func uneven(counts []int) [][]float32 {
	all := make([][]float32, len(counts))
	for r, n := range counts {
		all[r] = make([]float32, n)
	}
	return all
}

// inBlock adds each call of Batch to a block, with inputs that a number tells apart, and returns what checks the results.
var inBlock = map[string]func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func(){
	"AllReduce": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		x := filled(g.Rank(), n, i)
		b.AllReduce(colligo.Of(x), colligo.Sum)
		return func() { equal(t, sum(g.Size(), n, i), x) }
	},
	"Broadcast": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		x, root := filled(g.Rank(), n, i), i%g.Size()
		b.Broadcast(colligo.Of(x), root)
		return func() { equal(t, filled(root, n, i), x) }
	},
	"Reduce": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		x, root := filled(g.Rank(), n, i), i%g.Size()
		b.Reduce(colligo.Of(x), root, colligo.Sum)
		return func() {
			if g.Rank() == root {
				equal(t, sum(g.Size(), n, i), x)
			} else {
				equal(t, filled(g.Rank(), n, i), x)
			}
		}
	},
	"AllGather": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		counts := counted(g.Size(), n)
		outs := uneven(counts)
		b.AllGather(tensors(outs), colligo.Of(filled(g.Rank(), counts[g.Rank()], i)))
		return func() { eachFilled(t, outs, i) }
	},
	"AllGatherIntoTensor": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		out := make([]float32, n*g.Size())
		b.AllGatherIntoTensor(colligo.Of(out), colligo.Of(filled(g.Rank(), n, i)))
		return func() { eachFilled(t, evenly(out, g.Size()), i) }
	},
	"ReduceScatter": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		counts := counted(g.Size(), n)
		ins, out := uneven(counts), make([]float32, counts[g.Rank()])
		for r := range ins {
			copy(ins[r], filled(g.Rank(), counts[r], i+r))
		}
		b.ReduceScatter(colligo.Of(out), tensors(ins), colligo.Sum)
		return func() { equal(t, sum(g.Size(), len(out), i+g.Rank()), out) }
	},
	"ReduceScatterTensor": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		out := make([]float32, n)
		b.ReduceScatterTensor(colligo.Of(out), colligo.Of(filled(g.Rank(), n*g.Size(), i)), colligo.Sum)
		return func() { equal(t, sum(g.Size(), n, i+n*g.Rank()), out) }
	},
	"AllToAll": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		var ins, outs [][]float32
		for r := range g.Size() { // from each rank to each other n elements times the sum of their numbers
			ins = append(ins, filled(g.Rank(), n*(g.Rank()+r), i+r))
			outs = append(outs, make([]float32, n*(g.Rank()+r)))
		}
		b.AllToAll(tensors(outs), tensors(ins))
		return func() { eachFilled(t, outs, i+g.Rank()) }
	},
	"AllToAllSingle": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		out := make([]float32, n*g.Size())
		b.AllToAllSingle(colligo.Of(out), colligo.Of(filled(g.Rank(), n*g.Size(), i)), nil, nil)
		return func() { eachFilled(t, evenly(out, g.Size()), i+n*g.Rank()) }
	},
	"Gather": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		outs, root := [][]float32(nil), i%g.Size()
		if g.Rank() == root {
			outs = parts(g.Size(), n)
		}
		b.Gather(tensors(outs), colligo.Of(filled(g.Rank(), n, i)), root)
		return func() { eachFilled(t, outs, i) }
	},
	"GatherV": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		counts := counted(g.Size(), n)
		outs, root := [][]float32(nil), i%g.Size()
		if g.Rank() == root {
			outs = uneven(counts)
		}
		b.GatherV(tensors(outs), colligo.Of(filled(g.Rank(), counts[g.Rank()], i)), counts, root)
		return func() { eachFilled(t, outs, i) }
	},
	"Scatter": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		ins, out, root := [][]float32(nil), make([]float32, n), i%g.Size()
		if g.Rank() == root {
			ins = evenly(filled(root, n*g.Size(), i), g.Size())
		}
		b.Scatter(colligo.Of(out), tensors(ins), root)
		return func() { equal(t, filled(root, n*g.Size(), i)[n*g.Rank():][:n], out) }
	},
	"ScatterV": func(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
		counts := counted(g.Size(), n)
		ins, out, root := [][]float32(nil), make([]float32, counts[g.Rank()]), i%g.Size()
		for r := 0; g.Rank() == root && r < g.Size(); r++ {
			ins = append(ins, filled(root, counts[r], i+r))
		}
		b.ScatterV(colligo.Of(out), tensors(ins), counts, root)
		return func() { equal(t, filled(root, len(out), i+g.Rank()), out) }
	},
	"Send": around,
	"Recv": around,
}

// around sends to the next rank and receives from the one before, if there are others.
func around(t *testing.T, g *pg.Group, b *pg.Batch, i, n int) func() {
	if g.Size() == 1 {
		return func() {}
	}
	got, before := make([]float32, n), (g.Rank()+g.Size()-1)%g.Size()
	b.Recv(colligo.Of(got), before, i)
	b.Send(colligo.Of(filled(g.Rank(), n, i)), (g.Rank()+1)%g.Size(), i)
	return func() { equal(t, filled(before, n, i), got) }
}

// evenly returns the even parts of x.
func evenly(x []float32, size int) [][]float32 {
	n := len(x) / size
	all := make([][]float32, size)
	for r := range all {
		all[r] = x[r*n:][:n]
	}
	return all
}

// eachFilled checks that each part holds what its rank has filled from a number on.
func eachFilled(t *testing.T, got [][]float32, i int) {
	for r, x := range got {
		equal(t, filled(r, len(x), i), x, "rank %d", r)
	}
}

// TestBatchCalls runs every call of Batch in blocks of one and of three, blocking and not, small and of several steps.
func TestBatchCalls(t *testing.T) {
	for name := range methods(&pg.Batch{}) {
		require.Contains(t, inBlock, name)
	}
	for name, add := range inBlock {
		for _, size := range []int{1, 2, 3, 5} {
			t.Run(fmt.Sprintf("call=%s/size=%d", name, size), func(t *testing.T) {
				pgtest.Run(t, size, func(t *testing.T, g *pg.Group) {
					for i, n := range []int{0, 1, 7, 5000} {
						for _, calls := range []int{1, 3} {
							batchCalls(t, g, calls, func(b *pg.Batch, k int) func() { return add(t, g, b, 10*i+k, n) })
						}
					}
				})
			})
		}
	}
}

// batchCalls launches blocks of several calls.
func batchCalls(t *testing.T, g *pg.Group, calls int, add func(b *pg.Batch, k int) func()) {
	for _, async := range []bool{false, true} {
		var checks []func()
		fill := func(b *pg.Batch) error {
			for k := range calls {
				checks = append(checks, add(b, k))
			}
			return nil
		}
		if async {
			require.NoError(t, g.CoalesceAsync(t.Context(), fill).Wait(t.Context()))
		} else {
			require.NoError(t, g.Coalesce(t.Context(), fill))
		}
		for _, check := range checks {
			check()
		}
	}
}
