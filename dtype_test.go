package colligo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

func TestDTypes(t *testing.T) {
	sizes := map[string]int{"uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint32": 4, "uint64": 8,
		"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1, "bool": 1,
		"complex64": 8, "complex128": 16}
	require.Len(t, colligo.DTypes(), len(sizes))
	for _, d := range colligo.DTypes() {
		require.True(t, d.Valid())
		require.Equal(t, sizes[d.String()], d.Size(), "size of %v", d)
		parsed, err := colligo.ParseDType(d.String())
		require.NoError(t, err)
		require.Equal(t, d, parsed)
		classes := 0
		for _, is := range []bool{d.Float(), d.Complex(), d.Integer(), d == colligo.Bool} {
			if is {
				classes++
			}
		}
		require.Equal(t, 1, classes, "classes of %v", d)
	}
}

func TestDTypeThatIsNone(t *testing.T) {
	for _, d := range []colligo.DType{0, colligo.Complex128 + 1, 255} {
		require.False(t, d.Valid())
		require.Zero(t, d.Size())
		require.False(t, d.Integer() || d.Float() || d.Complex())
	}
	require.Equal(t, "dtype(255)", colligo.DType(255).String())
	_, err := colligo.ParseDType("float31")
	require.EqualError(t, err, `colligo: unknown element type "float31"`)
}

func TestDTypeShortNames(t *testing.T) {
	for s, want := range map[string]colligo.DType{"half": colligo.Float16, "f16": colligo.Float16, "bf16": colligo.BFloat16,
		"float": colligo.Float32, "f32": colligo.Float32, "double": colligo.Float64, "f64": colligo.Float64} {
		got, err := colligo.ParseDType(s)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestReal(t *testing.T) {
	require.Equal(t, colligo.Float32, colligo.Complex64.Real())
	require.Equal(t, colligo.Float64, colligo.Complex128.Real())
	require.Equal(t, colligo.Bool, colligo.Bool.Real())
}

func TestDevice(t *testing.T) {
	require.Equal(t, "cpu", colligo.Device{}.String())
	require.Equal(t, "cuda:1", colligo.Device{Kind: colligo.CUDA, Index: 1}.String())
	require.Equal(t, "device(7)", colligo.DeviceKind(7).String())
}
