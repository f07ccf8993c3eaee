package parity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
	"github.com/colligo-go/colligo/pg/sparse"
)

// unused leaves out the gradient of a parameter: an error that names it, unless the reducer was told to expect that.
func unused(t *testing.T, level pg.DebugLevel, view bool) {
	o := options{config: func(_ int, c *pg.Config) { c.Debug.Level = level }}
	for _, find := range []bool{false, true} {
		t.Run(fmt.Sprintf("find=%v", find), func(t *testing.T) {
			eachWith(t, 2, o, func(r *rank) {
				m := r.train(ddp.Options{BucketView: view, FindUnused: find}, layers...)
				m.halfBackward(3, 1, 0)
				err := m.Finish(r.ctx)
				if !find {
					require.ErrorContains(r.t, err, "without gradients of 1 of 4 parameters (layer2.weight)")
					return
				}
				require.NoError(r.t, err)
				m.holds(func(i int) float32 {
					if i == 2 {
						return 0
					}
					return mean(i)
				})
				m.zero()
				m.backward()
				m.holds(mean)
			})
		})
	}
}

func TestFindUnusedParametersKwargDebugDetail(t *testing.T) { unused(t, pg.DebugDetail, false) }
func TestFindUnusedParametersKwargDebugInfo(t *testing.T)   { unused(t, pg.DebugInfo, false) }
func TestFindUnusedParametersKwargDebugOff(t *testing.T)    { unused(t, pg.DebugOff, false) }

func TestFindUnusedParametersKwargGradIsViewDebugDetail(t *testing.T) {
	unused(t, pg.DebugDetail, true)
}
func TestFindUnusedParametersKwargGradIsViewDebugInfo(t *testing.T) { unused(t, pg.DebugInfo, true) }
func TestFindUnusedParametersKwargGradIsViewDebugOff(t *testing.T)  { unused(t, pg.DebugOff, true) }

// TestChannelsLastContig broadcasts a tensor whose channels lie next to one another.
func TestChannelsLastContig(t *testing.T) {
	each(t, 2, func(r *rank) {
		shape := []int{2, 16, 24, 36}
		data, want := make([]float32, 2*16*24*36), make([]float32, 2*16*24*36)
		for i := range data {
			data[i], want[i] = float32(i*(1-r.Rank())), float32(i)
		}
		flat := tensor(r, data...)
		x := flat.Strided(0, shape, channelsLast(shape))
		r.waited(r.BroadcastAsync(r.ctx, x, 0))
		require.Equal(r.t, want, values[float32](r, flat))
		require.NoError(r.t, r.AllReduce(r.ctx, x, colligo.Sum))
		require.Equal(r.t, float32(2), values[float32](r, flat)[1])
		err := r.AllReduce(r.ctx, flat.Strided(0, []int{10}, []int{3}), colligo.Sum)
		if r.gpu == nil {
			require.NoError(r.t, err)
		} else {
			require.ErrorContains(r.t, err, "neither contiguous nor dense")
		}
	})
}

// TestDDPSetSparseMetadata reduces the gradient of an embedding when all ranks know beforehand which rows there will be.
func TestDDPSetSparseMetadata(t *testing.T) {
	const rows, width = 5, 10
	all := []int64{0, 1, 2, 3, 4}
	each(t, 2, func(r *rank) {
		p := ddp.Parameter{Name: "embedding.weight", Grad: full(r, width, float32(0)), SparseRows: rows}
		m, err := ddp.New(r.ctx, r.Group, []ddp.Parameter{p}, ddp.Options{Memory: r.memory()})
		require.NoError(r.t, err)
		require.NoError(r.t, m.SetSparseRows(0, all))
		for range 2 {
			own := append(repeat(width, float32(2*r.Rank())), repeat(width, float32(2))...)
			grad := sparse.Tensor{Rows: rows, Indices: all, Values: tensor(r, append(own, repeat(3*width, float32(0))...)...)}
			grad.Values = grad.Values.Strided(0, []int{rows, width}, []int{width, 1})
			require.NoError(r.t, m.ReadySparse(r.ctx, 0, grad))
			require.NoError(r.t, m.Finish(r.ctx))
			require.Equal(r.t, all, m.Sparse(0).Indices)
			want := append(repeat(width, float32(1)), repeat(width, float32(2))...)
			require.Equal(r.t, append(want, repeat(3*width, float32(0))...), values[float32](r, m.Sparse(0).Values))
		}
		words := []int64{1, 0, 0}[:r.Rank()+1]
		some := sparse.Tensor{Rows: rows, Indices: words, Values: full(r, len(words)*width, float32(1)).Strided(0, []int{len(words), width}, []int{width, 1})}
		sum, err := sparse.AllReduceAt(r.ctx, r.Group, some, all, colligo.Sum)
		if r.gpu != nil {
			require.ErrorContains(r.t, err, "on a device each rank must have just these")
			return
		}
		require.NoError(r.t, err)
		require.Equal(r.t, all, sum.Indices)
		want := append(repeat(width, float32(1)), repeat(width, float32(2))...)
		require.Equal(r.t, append(want, repeat(3*width, float32(0))...), values[float32](r, sum.Values))
		exchanged, err := sparse.AllReduce(r.ctx, r.Group, some, colligo.Sum)
		require.NoError(r.t, err)
		require.Equal(r.t, []int64{0, 1}, exchanged.Indices)
		require.Equal(r.t, want, values[float32](r, exchanged.Values))
	})
}
