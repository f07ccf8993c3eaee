package cudasim_test

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

func TestEveryFunctionIsThere(t *testing.T) {
	r := newRig(t, cudasim.Config{})
	table := reflect.ValueOf(r.sim.Driver()).Elem()
	for i := range table.NumField() {
		if f := table.Field(i); f.Kind() == reflect.Func {
			require.Falsef(t, f.IsNil(), "%s is missing", table.Type().Field(i).Name)
		}
	}
}

// Calls are made with zeros, on a context and without one: none may panic or hang.
func TestZeroArguments(t *testing.T) {
	r := looseRig(t, cudasim.Config{})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	table := reflect.ValueOf(r.sim.Driver()).Elem()
	results := func(name string) cuda.Result {
		f := table.FieldByName(name)
		in := make([]reflect.Value, f.Type().NumIn())
		for i := range in {
			in[i] = reflect.Zero(f.Type().In(i))
			if f.Type().In(i).Kind() == reflect.Pointer {
				in[i] = reflect.New(f.Type().In(i).Elem())
			}
		}
		out := f.Call(in)
		if v, ok := out[len(out)-1].Interface().(cuda.Result); ok {
			return v
		}
		return cuda.Success
	}
	require.Equal(t, cuda.Success, r.sim.Driver().CtxSetCurrent(0))
	require.Equal(t, cuda.InvalidContext, results("MemAlloc"))
	require.Equal(t, cuda.InvalidContext, results("StreamSynchronize"))
	require.Equal(t, cuda.InvalidContext, results("LaunchKernel"))
	r.on(0, func(cuda.Thread) {
		for i := range table.NumField() {
			if name := table.Type().Field(i).Name; table.Field(i).Kind() == reflect.Func && name != "DevicePrimaryCtxRelease" {
				results(name)
			}
		}
	})
	require.Empty(t, r.sim.Faults())
}

func TestDeviceProperties(t *testing.T) {
	r := newRig(t, cudasim.Config{Devices: 2, Memory: 1 << 20, CanAccess: func(a, b int) bool { return a < b }})
	yes, err := r.devices[0].CanAccess(r.devices[1])
	require.NoError(t, err)
	require.True(t, yes)
	yes, err = r.devices[1].CanAccess(r.devices[0])
	require.NoError(t, err)
	require.False(t, yes)
	a, err := r.devices[0].UUID()
	require.NoError(t, err)
	b, err := r.devices[1].UUID()
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	major, err := r.devices[0].Attribute(cuda.ComputeCapabilityMajor)
	require.NoError(t, err)
	require.Equal(t, 9, major)
}

// A process that sees some devices calls them 0, 1 ... and finds the same GPU by its identity.
func TestVisibleDevices(t *testing.T) {
	sim := cudasim.New(cudasim.Config{Devices: 3})
	cudasim.Limit(t, sim)
	defer cudasim.Check(t, sim)
	all, one := open(t, sim, sim.Process().Driver()), open(t, sim, sim.Process(2).Driver())
	require.Len(t, one.devices, 1)
	a, err := all.devices[2].UUID()
	require.NoError(t, err)
	b, err := one.devices[0].UUID()
	require.NoError(t, err)
	require.Equal(t, a, b)
	all.close()
	one.close()
}

func TestOutOfMemory(t *testing.T) {
	r := newRig(t, cudasim.Config{Memory: 1 << 20})
	r.on(0, func(th cuda.Thread) {
		p, err := th.Alloc(1 << 19)
		require.NoError(t, err)
		_, err = th.Alloc(1<<19 + 1)
		require.ErrorIs(t, err, cuda.OutOfMemory)
		require.EqualError(t, err, "cuda: cuMemAlloc on device 0: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory (524289 bytes)")
		free, total, err := th.MemoryInfo()
		require.NoError(t, err)
		require.Equal(t, []uint64{1 << 19, 1 << 20}, []uint64{free, total})
		require.NoError(t, th.Free(p))
		require.ErrorIs(t, th.Free(p), cuda.InvalidValue)
	})
}

func TestFaultInjection(t *testing.T) {
	sim := cudasim.New(cudasim.Config{})
	cudasim.Limit(t, sim)
	defer cudasim.Check(t, sim)
	process := sim.Process()
	r := open(t, sim, process.Driver())
	process.Fail("MemAlloc", 2, cuda.OutOfMemory)
	process.Fail("IpcGetMemHandle", 0, cuda.NotSupported)
	p := r.alloc(0, 64)
	r.on(0, func(th cuda.Thread) {
		_, err := th.Alloc(64)
		require.ErrorIs(t, err, cuda.OutOfMemory)
		for range 3 {
			_, err = th.IPCHandle(p)
			require.ErrorIs(t, err, cuda.NotSupported)
		}
	})
	r.alloc(0, 64)
	require.Panics(t, func() { process.Fail("cuMemAlloc", 1, cuda.OutOfMemory) })
	r.close()
}

func TestLeaksAreFound(t *testing.T) {
	r := looseRig(t, cudasim.Config{})
	r.alloc(0, 100)
	r.stream(0)
	r.event(0)
	leaks := r.sim.Leaks()
	require.Len(t, leaks, 4, leaks)
	r.undo = r.undo[:1] // only the device
	r.close()
	require.Len(t, r.sim.Leaks(), 3)
}
