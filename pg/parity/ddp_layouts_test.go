package parity

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
)

// TestGradLayout1DeviceModule1ReplicaPerProcess has all four layers on the one device of a rank, or on the CPU.
func TestGradLayout1DeviceModule1ReplicaPerProcess(t *testing.T) {
	each(t, 2, func(r *rank) {
		layouts(r.t, r.Group, r.ctx, r.memory(), func(int) *rank { return r })
	})
}

// formats and types are mixtures of two strides and of two element types over four layers. A mixture has one alone, one in each half, or
// both in turn.
var (
	formats = [][4]func(shape []int) []int{
		{rowMajor, rowMajor, rowMajor, rowMajor},
		{channelsLast, channelsLast, rowMajor, rowMajor},
		{channelsLast, channelsLast, channelsLast, channelsLast},
		{channelsLast, rowMajor, rowMajor, channelsLast},
	}
	types = [][4]colligo.DType{
		{colligo.Float32, colligo.Float32, colligo.Float32, colligo.Float32},
		{colligo.Float32, colligo.Float32, colligo.Float16, colligo.Float16},
		{colligo.Float16, colligo.Float16, colligo.Float16, colligo.Float16},
		{colligo.Float32, colligo.Float16, colligo.Float32, colligo.Float16},
	}
)

// layouts trains four layers in all mixtures, in small buckets and in large ones, with gradients of their own and as views. The function
// says on which device a layer is.
func layouts(t *testing.T, g *pg.Group, ctx context.Context, memory ddp.Memory, on func(layer int) *rank) {
	for _, strides := range formats {
		for _, dtypes := range types {
			for _, bucket := range []int{1, 25 << 20} {
				for _, view := range []bool{false, true} {
					o := ddp.Options{Memory: memory, BucketView: view, FirstBucketBytes: bucket, BucketBytes: bucket}
					layout(t, g, ctx, o, strides, dtypes, on)
				}
			}
		}
	}
}

// layout trains one mixture. Gradients keep their strides, in the buckets too, and each element its place.
func layout(t *testing.T, g *pg.Group, ctx context.Context, o ddp.Options, strides [4]func([]int) []int, dtypes [4]colligo.DType, on func(int) *rank) {
	shape := []int{2, 3, 4, 5}
	const elements = 2 * 3 * 4 * 5
	var params []ddp.Parameter
	for i, d := range dtypes {
		grad := typed(on(i), d, make([]float64, elements)).Strided(0, shape, strides[i](shape))
		params = append(params, ddp.Parameter{Name: fmt.Sprintf("conv%d", i), Grad: grad})
	}
	m, err := ddp.New(ctx, g, params, o)
	require.NoError(t, err)
	// memory returns the bytes of layer i with multiples of its elements' places.
	memory := func(i int, times float64) []byte {
		v := make([]float64, elements)
		for k := range v {
			v[k] = times * float64(k+i)
		}
		return typed(&rank{}, dtypes[i], v).CPUBytes()
	}
	for range 3 {
		for _, b := range m.Buckets() {
			for j, i := range b.Params {
				require.Equal(t, params[i].Grad.Strides(), b.Grads[j].Strides())
			}
		}
		for i := 3; i >= 0; i-- {
			require.Equal(t, params[i].Grad.Strides(), m.Grad(i).Strides())
			on(i).write(m.Grad(i), memory(i, float64(g.Rank()+1)))
			require.NoError(t, m.Ready(ctx, i))
		}
		require.NoError(t, m.Finish(ctx))
		for i := range params {
			require.Equal(t, memory(i, 1.5), on(i).read(m.Grad(i)), "layer %d of %v", i, dtypes)
		}
	}
}
