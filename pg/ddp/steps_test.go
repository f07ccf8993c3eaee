package ddp_test

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/pg/sparse"
)

// TestStaticGraph uses one parameter twice in every step, another on rank 0 only, and one nowhere.
func TestStaticGraph(t *testing.T) {
	for _, view := range []bool{false, true} {
		t.Run(fmt.Sprintf("view=%v", view), func(t *testing.T) {
			pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
				m := newModel([]int{4}, []int{4}, []int{4}, []int{4})
				r, err := ddp.New(t.Context(), g, m.params, ddp.Options{FirstBucketBytes: 1, BucketBytes: 1, StaticGraph: true, BucketView: view})
				require.NoError(t, err)
				at := func(i int) []float32 { return floats(r.Grad(i)) }
				for step := range 4 {
					for i := range 4 {
						fillWith(at(i), 0)
					}
					fillWith(at(3), -1)
					fillWith(at(0), float32(g.Rank()+1))
					require.NoError(t, r.Ready(t.Context(), 0))
					if g.Rank() == 0 {
						fillWith(at(1), 8)
						require.NoError(t, r.Ready(t.Context(), 1))
					}
					fillWith(at(2), float32(step))
					require.NoError(t, r.Ready(t.Context(), 2))
					fillWith(at(0), float32(10*(g.Rank()+1))) // of both uses
					require.NoError(t, r.Ready(t.Context(), 0))
					require.NoError(t, r.Finish(t.Context()))
					require.Equal(t, []float32{15, 15, 15, 15}, at(0), "step %d", step)
					require.Equal(t, []float32{4, 4, 4, 4}, at(1), "step %d", step)
					require.Equal(t, float32(step), at(2)[0], "step %d", step)
					require.Equal(t, float32(-1), at(3)[0], "step %d: no rank uses it", step)
				}
			})
		})
	}
}

// TestGraphIsNotStatic names the parameter that is used more or less often than in the first step.
func TestGraphIsNotStatic(t *testing.T) {
	pgtest.Run(t, 1, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{4}, []int{4})
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{StaticGraph: true})
		require.NoError(t, err)
		ctx := t.Context()
		require.NoError(t, r.Ready(ctx, 0))
		require.NoError(t, r.Ready(ctx, 1))
		require.NoError(t, r.Ready(ctx, 1))
		require.NoError(t, r.Finish(ctx))
		require.NoError(t, r.Ready(ctx, 0))
		require.ErrorContains(t, r.Ready(ctx, 0), "w0 was ready more often than in the first step, which had 1 uses")
		require.NoError(t, r.Ready(ctx, 1))
		require.Equal(t, []int{1}, r.Missing())
		require.ErrorContains(t, r.Finish(ctx), "without gradients of 1 of 2 parameters (w1)")
	})
}

// TestJoin has ranks with 1, 2 and 4 steps, with hooks, unused parameters and buffers. The mean is that of all ranks, or of those that compute.
func TestJoin(t *testing.T) {
	for _, some := range []bool{false, true} {
		for _, find := range []bool{false, true} {
			for _, sync := range []bool{false, true} {
				t.Run(fmt.Sprintf("mean=%v/find=%v/buffers=%v", some, find, sync), func(t *testing.T) {
					pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) { join(t, g, some, find, sync) })
				})
			}
		}
	}
}

func join(t *testing.T, g *pg.Group, some, find, sync bool) {
	m := newModel([]int{4}, []int{5}, []int{3})
	values := make([]float32, 4)
	m.params[0].Value = colligo.Of(values)
	buffer := []float32{float32(g.Rank())}
	r, err := ddp.New(t.Context(), g, m.params, ddp.Options{FirstBucketBytes: 1, BucketBytes: 1, Join: true, JoinMean: some, FindUnused: find,
		Buffers: []colligo.Tensor{colligo.Of(buffer)}})
	require.NoError(t, err)
	steps := []int{1, 2, 4}
	for step := range steps[g.Rank()] {
		active, root := 0, -1
		for rank, n := range steps {
			if n > step {
				active++
				if root < 0 {
					root = rank
				}
			}
		}
		if sync {
			buffer[0] = float32(100*step + g.Rank())
			require.NoError(t, r.SyncBuffers(t.Context()))
			require.Equal(t, float32(100*step+root), buffer[0])
		}
		params := 3
		if find {
			params = 2 // the last is not used
		}
		for i := range params {
			m.fill(i, 6)
			require.NoError(t, r.Ready(t.Context(), i))
		}
		require.NoError(t, r.Finish(t.Context()))
		want := float32(6*active) / 3
		if some {
			want = 6
		}
		for i := range params {
			require.InDelta(t, want, m.grads[i][0], 1e-5, "step %d", step)
		}
		fillWith(values, float32(10*step+g.Rank()))
	}
	require.NoError(t, r.Join(t.Context()))
	require.Equal(t, float32(32), values[0], "what rank 2, the last to compute, has")
}

// TestJoinMisuse refuses what does not go together.
func TestJoinMisuse(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{4})
		_, err := ddp.New(t.Context(), g, m.params, ddp.Options{StaticGraph: true, Join: true})
		require.ErrorContains(t, err, "StaticGraph and Join")
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{})
		require.NoError(t, err)
		require.ErrorContains(t, r.Join(t.Context()), "without Options.Join")
		r, err = ddp.New(t.Context(), g, m.params, ddp.Options{Join: true})
		require.NoError(t, err)
		if g.Rank() == 0 {
			require.ErrorContains(t, r.SyncBuffers(t.Context()), "one of ranks 0 and 1 synchronizes buffers")
			return
		}
		require.ErrorContains(t, r.Ready(t.Context(), 0), "one of ranks 0 and 1 synchronizes buffers")
	})
}

// TestSparseGradients averages the rows that some rank has, beside a dense gradient, with and without knowing the rows.
func TestSparseGradients(t *testing.T) {
	const rows, width = 6, 2
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("known=%v", known), func(t *testing.T) {
			pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
				m := newModel([]int{4}, []int{width})
				m.params[1].SparseRows = rows
				r, err := ddp.New(t.Context(), g, m.params, ddp.Options{})
				require.NoError(t, err)
				if known {
					require.NoError(t, r.SetSparseRows(1, []int64{1, 3, 5}))
				}
				for range 3 {
					mine := [][]int64{{3, 1}, {5, 3, 3}}[g.Rank()]
					v := make([]float32, len(mine)*width)
					fillWith(v, float32(g.Rank()+1))
					grad := sparse.Tensor{Rows: rows, Indices: mine, Values: colligo.Of(v, len(mine), width)}
					m.fill(0, float32(g.Rank()))
					require.ErrorContains(t, r.Ready(t.Context(), 1), "call ReadySparse")
					require.NoError(t, r.ReadySparse(t.Context(), 1, grad))
					require.ErrorContains(t, r.ReadySparse(t.Context(), 1, grad), "ready twice")
					require.NoError(t, r.Ready(t.Context(), 0))
					require.NoError(t, r.Finish(t.Context()))
					require.Equal(t, float32(0.5), m.grads[0][0])
					require.Equal(t, []int64{1, 3, 5}, r.Sparse(1).Indices)
					require.Equal(t, []float32{0.5, 0.5, 2.5, 2.5, 1, 1}, floats(r.Sparse(1).Values))
					require.Equal(t, float32(g.Rank()+1), v[0], "the caller's gradient is only read")
				}
				require.ErrorContains(t, r.ReadySparse(t.Context(), 1, sparse.Tensor{Rows: 5, Values: colligo.Of([]float32{}, 0, width)}), "of 5 rows")
			})
		})
	}
}

// TestSparseUnused has one rank without a sparse gradient.
func TestSparseUnused(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{2})
		m.params[0].SparseRows = 3
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{FindUnused: true})
		require.NoError(t, err)
		if g.Rank() == 1 {
			require.NoError(t, r.ReadySparse(t.Context(), 0, sparse.Tensor{Rows: 3, Indices: []int64{2}, Values: colligo.Of([]float32{4, 6}, 1, 2)}))
		}
		require.NoError(t, r.Finish(t.Context()))
		require.Equal(t, []int64{2}, r.Sparse(0).Indices)
		require.Equal(t, []float32{2, 3}, floats(r.Sparse(0).Values))
	})
}

// TestMinCompressionRate counts the elements that PowerSGD sends, by the rate that it demands.
func TestMinCompressionRate(t *testing.T) {
	for rate, exact := range map[float64]bool{0: false, 2.6: false, 2.7: true} { // 8 × 4 elements, and 12 of two factors
		for _, together := range []bool{false, true} {
			pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
				m := newModel([]int{8, 4}, []int{40, 40}, []int{8, 4})
				state, err := ddp.NewPowerSGD(ddp.PowerSGDOptions{MinCompressionRate: rate, SameShapeTogether: together})
				require.NoError(t, err)
				r, err := ddp.New(t.Context(), g, m.params, ddp.Options{Hook: state.Hook})
				require.NoError(t, err)
				for i := range m.grads[0] {
					m.grads[0][i] = float32(i * i % 7)
					m.grads[2][i] = float32(i * i % 5)
				}
				for i := range m.params {
					require.NoError(t, r.Ready(t.Context(), i))
				}
				require.NoError(t, r.Finish(t.Context()))
				same := true
				for i := range m.grads[0] {
					same = same && m.grads[0][i] == float32(i*i%7) && m.grads[2][i] == float32(i*i%5)
				}
				require.Equal(t, exact, same, "rate %v", rate)
			})
		}
	}
}

func fillWith(s []float32, v float32) {
	for i := range s {
		s[i] = v
	}
}

// floats returns the memory of a contiguous float32 tensor.
func floats(t colligo.Tensor) []float32 { return view[float32](t) }

func view[T any](t colligo.Tensor) []T { return unsafe.Slice((*T)(t.Pointer()), t.Len()) }
