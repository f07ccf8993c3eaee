package pg_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// sparse is a rank's tensor: rows in no order, some twice.
func sparse(rank, rows, width int) (indices []int64, values []float32) {
	rng := rand.New(rand.NewPCG(uint64(rank), uint64(rows)))
	for range rank * rows / 3 {
		indices = append(indices, int64(rng.IntN(rows)))
	}
	for range len(indices) * width {
		values = append(values, float32(rng.NormFloat64()))
	}
	return indices, values
}

// summed is the definition: each row's sum in the order of the ranks and of their lists.
func summed(size, rows, width int) (indices []int64, values []float32) {
	sums := map[int64][]float32{}
	for r := range size {
		is, vs := sparse(r, rows, width)
		for i, x := range is {
			row := vs[i*width : (i+1)*width]
			if sums[x] == nil {
				sums[x] = slices.Clone(row)
				continue
			}
			for j, v := range row {
				sums[x][j] += v
			}
		}
	}
	for x := range sums {
		indices = append(indices, x)
	}
	slices.Sort(indices)
	for _, x := range indices {
		values = append(values, sums[x]...)
	}
	return indices, values
}

func float32sOf(t colligo.Tensor) []float32 {
	out := make([]float32, t.Len())
	copy(colligo.Of(out).CPUBytes(), t.CPUBytes())
	return out
}

// TestSparse sums tensors with rows of several shapes, with and without an agreed list of rows.
func TestSparse(t *testing.T) {
	for _, transport := range []string{"sim", "shm"} {
		for _, size := range []int{1, 2, 3, 5} {
			t.Run(fmt.Sprintf("transport=%s/size=%d", transport, size), func(t *testing.T) {
				needs(t, transport)
				pgtest.RunWith(t, size, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
					for _, rows := range []int{1, 10, 300} {
						for _, shape := range [][]int{nil, {7}, {2, 3}, {0}} {
							sumSparse(t, g, rows, shape)
						}
					}
				})
			})
		}
	}
}

func sumSparse(t *testing.T, g *pg.Group, rows int, shape []int) {
	width := 1
	for _, d := range shape {
		width *= d
	}
	indices, values := sparse(g.Rank(), rows, width)
	s := pg.Sparse{Rows: rows, Indices: indices, Values: colligo.Of(values, append([]int{len(indices)}, shape...)...)}
	want, sums := summed(g.Size(), rows, width)
	got, err := g.AllReduceSparse(t.Context(), s, colligo.Sum)
	require.NoError(t, err)
	require.Equal(t, rows, got.Rows)
	require.Len(t, got.Indices, len(want))
	require.Equal(t, append([]int{len(want)}, shape...), got.Values.Shape())
	if len(want) > 0 {
		require.Equal(t, want, got.Indices)
	}
	equal(t, append([]float32{}, sums...), float32sOf(got.Values))

	all := make([]int64, rows)
	for i := range all {
		all[i] = int64(i)
	}
	got, err = g.AllReduceSparseAt(t.Context(), s, all, colligo.Sum)
	require.NoError(t, err)
	require.Equal(t, all, got.Indices)
	dense := make([]float32, rows*width)
	for i, x := range want {
		copy(dense[int(x)*width:], sums[i*width:][:width])
	}
	for i, v := range float32sOf(got.Values) {
		require.InDelta(t, dense[i], v, 1e-4, "the order of the sum is that of the plan")
	}
}

// TestSparseWrong has one rank give a tensor that cannot be: every rank gets an error and the group goes on.
func TestSparseWrong(t *testing.T) {
	two := colligo.Of(make([]float32, 4), 2, 2)
	good := pg.Sparse{Rows: 9, Indices: []int64{1, 2}, Values: two}
	for says, s := range map[string]pg.Sparse{
		"index 1 is 9 in a tensor of 9 rows":             {Rows: 9, Indices: []int64{1, 9}, Values: two},
		"index 0 is -1 in a tensor of 9 rows":            {Rows: 9, Indices: []int64{-1, 2}, Values: two},
		"values float32[2 2] cpu for 1 indices":          {Rows: 9, Indices: []int64{1}, Values: two},
		"the values are an invalid tensor":               {Rows: 9},
		"have more bytes than an int can count":          {Rows: 9, Values: colligo.Of([]float64{}, 0, math.MaxInt/4)},
		"they must be contiguous and on the CPU":         {Rows: 9, Indices: []int64{1}, Values: colligo.OnDevice(colligo.Device{Kind: colligo.CUDA}, 4096, 2, colligo.Float32, 1, 2)},
		"has a tensor of 9 rows of 2 elements, this ran": {Rows: 8, Indices: []int64{1, 2}, Values: two},
		"this rank one of 9 rows of 1":                   {Rows: 9, Indices: []int64{1, 2}, Values: colligo.Of(make([]float32, 2))},
	} {
		pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
			mine := good
			if g.Rank() == 1 {
				mine = s
			}
			_, err := g.AllReduceSparse(t.Context(), mine, colligo.Sum)
			require.ErrorContains(t, err, "pg: all_reduce of a sparse tensor: ")
			if g.Rank() == 1 {
				require.ErrorContains(t, err, says)
			}
			require.NoError(t, g.Barrier(t.Context()))
			_, err = g.AllReduceSparse(t.Context(), good, colligo.Max)
			require.ErrorContains(t, err, "max of sparse tensors, which can only be summed")
		})
	}
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		for says, rows := range map[string][]int64{"row 2 is not in the list": {1, 3}, "row 1 comes after row 1": {1, 1, 2}, "index 2 is 9": {1, 2, 9}} {
			_, err := g.AllReduceSparseAt(t.Context(), good, rows, colligo.Sum)
			require.ErrorContains(t, err, says)
		}
	})
}

// TestSparseHostile plays a peer that announces more than may be.
func TestSparseHostile(t *testing.T) {
	for _, n := range []int64{-2, math.MaxInt64, 1 << 40, math.MinInt64} {
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			if g.Rank() == 1 {
				require.NoError(t, g.AllGatherIntoTensor(t.Context(), colligo.Of(make([]int64, 8)), colligo.Of([]int64{n, 9, 2, math.MaxInt64})))
				return
			}
			_, err := g.AllReduceSparse(t.Context(), pg.Sparse{Rows: 9, Indices: []int64{1}, Values: colligo.Of(make([]float32, 2), 1, 2)}, colligo.Sum)
			require.ErrorContains(t, err, fmt.Sprintf("rank 1 announces %d rows of 2 elements", n))
		})
	}
}

// TestSparseLimitsDiffer has ranks that take different amounts of memory: the lowest counts, and the ranks stay in step.
func TestSparseLimitsDiffer(t *testing.T) {
	o := pgtest.Options{Config: func(rank int, c *pg.Config) {
		if rank == 1 {
			c.MaxObject = 100
		}
	}}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		s := pg.Sparse{Rows: 9, Indices: []int64{1, 2}, Values: colligo.Of(make([]float32, 4), 2, 2)}
		_, err := g.AllReduceSparse(t.Context(), s, colligo.Sum)
		require.NoError(t, err, "96 B")
		s = pg.Sparse{Rows: 9, Indices: []int64{1, 2, 3}, Values: colligo.Of(make([]float32, 6), 3, 2)}
		_, err = g.AllReduceSparse(t.Context(), s, colligo.Sum)
		require.ErrorContains(t, err, "rank 2 announces 3 rows of 2 elements; MaxObject is")
		require.NoError(t, g.Barrier(t.Context()))
	})
}
