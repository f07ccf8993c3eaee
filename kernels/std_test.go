package kernels

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// TestStd compares with a < b ? b : a and b < a ? b : a, over all pairs of numbers that tell these apart from other forms.
func TestStd(t *testing.T) {
	values := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, -1, 2.5}
	var x, y []float64
	for _, a := range values {
		for _, b := range values {
			x, y = append(x, a), append(y, b)
		}
	}
	for _, d := range []colligo.DType{colligo.Float64, colligo.Float32, colligo.Float16, colligo.BFloat16} {
		a, b := patterns(d, x), patterns(d, y)
		for _, k := range []colligo.OpKind{colligo.KindMin, colligo.KindMax} {
			kernel, err := LookupStd(d, k)
			require.NoError(t, err)
			dst := make([]byte, len(a))
			kernel.Reduce(dst, a, b)
			for i := range x {
				want := a[i*d.Size() : (i+1)*d.Size()]
				if k == colligo.KindMin && y[i] < x[i] || k == colligo.KindMax && x[i] < y[i] {
					want = b[i*d.Size() : (i+1)*d.Size()]
				}
				require.Equal(t, want, dst[i*d.Size():(i+1)*d.Size()], "%s of %v and %v", kernel.Name(), x[i], y[i])
			}
		}
	}
}

// patterns returns numbers as elements of a type.
func patterns(d colligo.DType, v []float64) []byte {
	b := make([]byte, len(v)*d.Size())
	for i, f := range v {
		switch d {
		case colligo.Float64:
			view[float64](b, len(v))[i] = f
		case colligo.Float32:
			view[float32](b, len(v))[i] = float32(f)
		case colligo.Float16:
			view[uint16](b, len(v))[i] = colligo.Float16FromFloat32(float32(f))
		default:
			view[uint16](b, len(v))[i] = colligo.BFloat16FromFloat32(float32(f))
		}
	}
	return b
}

// TestStdElsewhere: other reductions and types have the kernels of Lookup, and truth values those of bytes.
func TestStdElsewhere(t *testing.T) {
	for _, d := range []colligo.DType{colligo.Float32, colligo.Int32, colligo.Uint8} {
		same, err := Lookup(d, colligo.KindSum)
		require.NoError(t, err)
		got, err := LookupStd(d, colligo.KindSum)
		require.NoError(t, err)
		require.Same(t, same, got)
	}
	k, err := LookupStd(colligo.Bool, colligo.KindSum)
	require.NoError(t, err)
	dst := []byte{0}
	k.Reduce(dst, []byte{1}, []byte{1})
	require.Equal(t, []byte{2}, dst)
	_, err = LookupStd(colligo.Float32, colligo.KindBAnd)
	require.Error(t, err)
}
