package pg_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestAverageOfFloats has averages be the premultiplied sums of 1/size, bit for bit, and not overflow where the inputs fit.
func TestAverageOfFloats(t *testing.T) {
	for i := range passes {
		for _, size := range []int{2, 3, 4} {
			t.Run(fmt.Sprintf("algo=%d/size=%d", i, size), func(t *testing.T) {
				pgtest.RunWith(t, size, pgtest.Options{Config: algorithms(i)}, func(t *testing.T, g *pg.Group) {
					for _, d := range []colligo.DType{colligo.Float16, colligo.BFloat16, colligo.Float32, colligo.Float64, colligo.Complex64} {
						average(t, g, d, 5000)
					}
					greatest := make([]float32, 300)
					for i := range greatest {
						greatest[i] = math.MaxFloat32
					}
					if size != 3 { // three thirds of it are more than it by rounding
						require.NoError(t, g.AllReduce(t.Context(), colligo.Of(greatest), colligo.Avg))
						require.Equal(t, float32(math.MaxFloat32), greatest[0])
						require.Equal(t, float32(math.MaxFloat32), greatest[299])
					}
				})
			})
		}
	}
}

// average compares an average with the premultiplied sum, in place and not, whole and scattered. Inputs are not written.
func average(t *testing.T, g *pg.Group, d colligo.DType, n int) {
	n *= g.Size()
	in := make([]byte, n*d.Size())
	for i := range n * d.Size() / d.Real().Size() {
		writeReal(in[i*d.Real().Size():], d.Real(), math.Sin(float64(i+7*g.Rank()))*1000)
	}
	x, y := bytes.Clone(in), bytes.Clone(in)
	premul := colligo.PremulSum(1 / float64(g.Size()))
	require.NoError(t, g.AllReduce(t.Context(), colligo.Bytes(x, d), colligo.Avg))
	require.NoError(t, g.AllReduce(t.Context(), colligo.Bytes(y, d), premul))
	require.Equal(t, y, x, "%v", d)
	kept := bytes.Clone(in)
	part, other := make([]byte, len(in)/g.Size()), make([]byte, len(in)/g.Size())
	require.NoError(t, g.ReduceScatterTensor(t.Context(), colligo.Bytes(part, d), colligo.Bytes(in, d), colligo.Avg))
	require.NoError(t, g.ReduceScatterTensor(t.Context(), colligo.Bytes(other, d), colligo.Bytes(in, d), premul))
	require.Equal(t, other, part, "%v", d)
	require.Equal(t, kept, in, "the input is only read")
}
