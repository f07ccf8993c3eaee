package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
)

func TestScalarReadsEveryFloat(t *testing.T) {
	for _, d := range colligo.DTypes() {
		memory := make([]complex128, 1)
		b := colligo.Of(memory).View(colligo.Uint8).Slice(0, d.Size())
		copy(b.CPUBytes(), write(d.Real(), number{f: -1.5}))
		got, err := kernels.Scalar(b.View(d))
		if d.Float() {
			require.NoError(t, err)
			require.Equal(t, -1.5, got, "%v", d)
		} else {
			require.ErrorContains(t, err, d.String())
		}
	}
	_, err := kernels.Scalar(colligo.Of([]float32{1, 2}))
	require.EqualError(t, err, "kernels: float32[2] cpu is not one element on the CPU")
	_, err = kernels.Scalar(colligo.OnDevice(colligo.Device{Kind: colligo.CUDA}, 64, 1, colligo.Float32))
	require.Error(t, err)
}
