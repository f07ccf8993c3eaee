package cuda_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// onSim runs f on a device of a simulation, and checks that nothing is left.
func onSim(t *testing.T, f func(th cuda.Thread, d *cuda.Device, s cuda.Stream)) {
	t.Helper()
	sim := cudasim.New(cudasim.Config{})
	cudasim.Limit(t, sim)
	defer cudasim.Check(t, sim)
	d, err := sim.Driver().Device(0)
	require.NoError(t, err)
	th, err := d.Enter()
	require.NoError(t, err)
	s, err := th.NewStream(0)
	require.NoError(t, err)
	f(th, d, s)
	require.NoError(t, th.DestroyStream(s))
	th.Leave()
	require.NoError(t, d.Close())
}

// TestArray copies slices there and back: less than the pinned memory holds, as much, and more.
func TestArray(t *testing.T) {
	onSim(t, func(th cuda.Thread, d *cuda.Device, s cuda.Stream) {
		for _, count := range []int{1, 1 << 17, 1<<18 + 3} {
			x := make([]float64, count)
			for i := range x {
				x[i] = float64(i)
			}
			a, err := cuda.ArrayOf(th, x, s)
			require.NoError(t, err)
			require.Equal(t, count, a.Len())
			y := make([]float64, count)
			require.NoError(t, a.Read(th, y, s))
			require.Equal(t, x, y)
			require.NoError(t, a.Write(th, []float64{-1}, s))
			require.NoError(t, a.Read(th, y[:1], s))
			require.InDelta(t, -1, y[0], 0)
			tensor := a.Tensor()
			require.Equal(t, d.Place(), tensor.Device())
			require.Equal(t, colligo.Float64, tensor.DType())
			require.Equal(t, uintptr(a.Pointer()), tensor.Addr())
			require.Equal(t, []int{count, 1}, a.Tensor(count, 1).Shape())
			require.PanicsWithValue(t, "cuda: "+strconv.Itoa(count+1)+" elements for an array of "+strconv.Itoa(count), func() { _ = a.Read(th, make([]float64, count+1), s) })
			require.NoError(t, a.Free(th))
			require.NoError(t, a.Free(th))
			require.Zero(t, a.Len())
			require.Zero(t, a.Pointer())
		}
	})
}

// TestArrayOfNothing takes no memory.
func TestArrayOfNothing(t *testing.T) {
	onSim(t, func(th cuda.Thread, _ *cuda.Device, s cuda.Stream) {
		a, err := cuda.ArrayOf(th, []int32{}, s)
		require.NoError(t, err)
		require.Zero(t, a.Tensor().Len())
		require.NoError(t, a.Read(th, nil, s))
		require.NoError(t, a.Free(th))
		require.Panics(t, func() { _, _ = cuda.NewArray[int32](th, -1) })
		require.Panics(t, func() { _ = a.Write(th, []int32{1}, s) })
	})
}

// TestArrayTooLarge says how much memory there is not, and keeps none.
func TestArrayTooLarge(t *testing.T) {
	onSim(t, func(th cuda.Thread, _ *cuda.Device, _ cuda.Stream) {
		_, err := cuda.NewArray[float32](th, 1<<40)
		require.ErrorContains(t, err, "4398046511104 bytes")
	})
}
