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
	eachWith(t, 2, options{cpuOnly: true}, func(r *rank) {
		shape := []int{2, 16, 24, 36}
		data := make([]float32, 2*16*24*36)
		for i := range data {
			data[i] = float32(i * (1 - r.Rank()))
		}
		x := colligo.Of(data).Strided(0, shape, channelsLast(shape))
		r.waited(r.BroadcastAsync(r.ctx, x, 0))
		for i, v := range data {
			require.Equal(r.t, float32(i), v)
		}
	})
}

// TestDDPSetSparseMetadata reduces the gradient of an embedding when all ranks know beforehand which rows there will be.
func TestDDPSetSparseMetadata(t *testing.T) {
	const rows, width = 5, 10
	eachWith(t, 2, options{cpuOnly: true}, func(r *rank) {
		words := []int64{1, 0, 0}[:r.Rank()+1]
		grad := sparse.Tensor{Rows: rows, Indices: words, Values: colligo.Of(repeat(len(words)*width, float32(1)), len(words), width)}
		all := []int64{0, 1, 2, 3, 4}
		sum, err := sparse.AllReduceAt(r.ctx, r.Group, grad, all, colligo.Sum)
		require.NoError(r.t, err)
		require.Equal(r.t, all, sum.Indices)
		want := append(repeat(width, float32(1)), repeat(width, float32(2))...)
		require.Equal(r.t, append(want, repeat(3*width, float32(0))...), values[float32](r, sum.Values))

		exchanged, err := sparse.AllReduce(r.ctx, r.Group, grad, colligo.Sum)
		require.NoError(r.t, err)
		require.Equal(r.t, []int64{0, 1}, exchanged.Indices)
		require.Equal(r.t, want, values[float32](r, exchanged.Values))
	})
}
