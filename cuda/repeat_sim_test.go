package cuda_test

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// TestRepeat launches a kernel again before the first launch has run. Each launch has its own arguments and grid, which the
// driver is told only where they change.
func TestRepeat(t *testing.T) {
	sim := cudasim.New(cudasim.Config{})
	cudasim.Limit(t, sim)
	defer cudasim.Check(t, sim)
	type args struct{ at, value uint64 }
	var runs atomic.Int32
	sim.Register("put", unsafe.Sizeof(args{}), func(l *cudasim.Launch) {
		a := cudasim.Args[args](l)
		*(*uint64)(unsafe.Pointer(&l.Store(a.at, 8)[0])) = a.value + uint64(l.Grid)
		runs.Add(1)
	})
	driver, told := *sim.Driver(), 0
	tell := driver.GraphExecKernelNodeSetParams
	driver.GraphExecKernelNodeSetParams = func(e cuda.GraphExec, n cuda.GraphNode, f cuda.Function, blocks, threads, shared uint32, args unsafe.Pointer) cuda.Result {
		told++
		return tell(e, n, f, blocks, threads, shared, args)
	}
	d, err := driver.Device(0)
	require.NoError(t, err)
	require.True(t, d.Repeats())
	th, err := d.Enter()
	require.NoError(t, err)
	s, err := th.NewStream(0)
	require.NoError(t, err)
	m, err := th.LoadModule("put", cudasim.Image("put"))
	require.NoError(t, err)
	f, err := th.Function(m, "put")
	require.NoError(t, err)
	x, err := th.NewRepeat(f, unsafe.Sizeof(args{}), s)
	require.NoError(t, err)
	h, err := th.AllocHost(16)
	require.NoError(t, err)
	launch := func(x *cuda.Repeat, g cuda.Grid, args unsafe.Pointer, s cuda.Stream) {
		captured, err := th.LaunchRepeat(x, g, args, s)
		require.NoError(t, err)
		require.False(t, captured)
	}
	for i := range uint64(2) {
		a := &args{uint64(h.Device) + 8*i, 10 * i}
		for range 2 {
			launch(x, cuda.Grid{Blocks: uint32(1 + i), Threads: 32}, unsafe.Pointer(a), s)
		}
		launch(x, cuda.Grid{Blocks: uint32(1 + i), Threads: 64}, unsafe.Pointer(a), s)
	}
	require.NoError(t, th.Synchronize(s))
	require.Equal(t, 4, told, "two arguments, two grids each")
	require.Equal(t, int32(6), runs.Load())
	require.Equal(t, []byte{1, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0}, h.Bytes)
	require.NoError(t, th.BeginCapture(s, cuda.CaptureThreadLocal))
	captured, err := th.LaunchRepeat(x, cuda.Grid{Blocks: 1, Threads: 32}, unsafe.Pointer(&args{}), s)
	require.NoError(t, err)
	require.True(t, captured)
	g, err := th.EndCapture(s)
	require.NoError(t, err)
	require.NoError(t, th.DestroyGraph(g))
	require.NoError(t, th.DestroyRepeat(x))
	require.NoError(t, th.FreeHost(h))
	require.NoError(t, th.UnloadModule(m))
	require.NoError(t, th.DestroyStream(s))
	th.Leave()
	require.NoError(t, d.Close())
}

// TestRepeatFails has a call fail of those that prepare a kernel: the error names it, and nothing is left.
func TestRepeatFails(t *testing.T) {
	for _, c := range []struct{ function, text string }{
		{"LaunchKernel", "cuLaunchKernel"}, {"GraphGetNodes", "cuGraphGetNodes"}, {"GraphInstantiate", "cuGraphInstantiate"},
	} {
		t.Run(c.function, func(t *testing.T) {
			sim := cudasim.New(cudasim.Config{})
			cudasim.Limit(t, sim)
			defer cudasim.Check(t, sim)
			sim.Register("nothing", 8, func(*cudasim.Launch) {})
			p := sim.Process()
			d, err := p.Driver().Device(0)
			require.NoError(t, err)
			th, err := d.Enter()
			require.NoError(t, err)
			s, err := th.NewStream(0)
			require.NoError(t, err)
			m, err := th.LoadModule("nothing", cudasim.Image("nothing"))
			require.NoError(t, err)
			f, err := th.Function(m, "nothing")
			require.NoError(t, err)
			p.Fail(c.function, 1, cuda.OutOfMemory)
			_, err = th.NewRepeat(f, 8, s)
			require.ErrorContains(t, err, c.text)
			require.ErrorIs(t, err, cuda.OutOfMemory)
			require.NoError(t, th.UnloadModule(m))
			require.NoError(t, th.DestroyStream(s))
			th.Leave()
			require.NoError(t, d.Close())
		})
	}
}
