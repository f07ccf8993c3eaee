package cuda_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// TestOnDevice works on a simulated device, and leaves nothing open: neither after an error nor after a panic.
func TestOnDevice(t *testing.T) {
	sim := cudasim.New(cudasim.Config{Devices: 2})
	cudasim.Limit(t, sim)
	defer cudasim.Check(t, sim)
	d := sim.Driver()
	require.NoError(t, d.OnDevice(1, func(th cuda.Thread, s cuda.Stream) error {
		require.Equal(t, 1, th.Place().Index)
		x, err := cuda.ArrayOf(th, []int32{1, 2, 3}, s)
		require.NoError(t, err)
		got := make([]int32, 3)
		require.NoError(t, x.Read(th, got, s))
		require.Equal(t, []int32{1, 2, 3}, got)
		return x.Free(th)
	}))
	failed := errors.New("a reason")
	require.ErrorIs(t, d.OnDevice(0, func(cuda.Thread, cuda.Stream) error { return failed }), failed)
	require.Panics(t, func() { _ = d.OnDevice(0, func(cuda.Thread, cuda.Stream) error { panic("a reason") }) })
	require.ErrorContains(t, d.OnDevice(2, nil), "cuDeviceGet")
}

// TestOnDeviceIndex asks for the number first: a process that no launcher has started hears of that, not of a missing driver.
func TestOnDeviceIndex(t *testing.T) {
	failed := errors.New("no launcher")
	require.ErrorIs(t, cuda.OnDevice(func() (int, error) { return 0, failed }, nil), failed)
}

// TestFreeOfNone frees what was never made.
func TestFreeOfNone(t *testing.T) {
	var none *cuda.Array[float32]
	require.NoError(t, none.Free(cuda.Thread{}))
}
