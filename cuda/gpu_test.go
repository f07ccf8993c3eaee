package cuda_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
)

// The tests that need a GPU run where COLLIGO_GPU is 1, and fail there if there is none.
func gpus(t testing.TB) []*cuda.Device {
	if os.Getenv("COLLIGO_GPU") != "1" {
		t.Skip("needs a GPU: set COLLIGO_GPU=1 where there is one")
	}
	kept, err := contexts()
	require.NoError(t, err)
	require.NotEmpty(t, kept, "no devices")
	devices := make([]*cuda.Device, len(kept))
	for i := range devices {
		devices[i], err = kept[i].Driver().Device(i)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, devices[i].Close()) })
	}
	return devices
}

// contexts opens all devices once: to make a context and to destroy it takes a good part of a second, too long for each test.
var contexts = sync.OnceValues(func() ([]*cuda.Device, error) {
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	n, err := driver.Devices()
	devices := make([]*cuda.Device, n)
	for i := range devices {
		var err2 error
		devices[i], err2 = driver.Device(i)
		err = errors.Join(err, err2)
	}
	return devices, err
})

// enter is Enter until the test ends.
func enter(t testing.TB, d *cuda.Device) cuda.Thread {
	thread, err := d.Enter()
	require.NoError(t, err)
	t.Cleanup(thread.Leave)
	return thread
}

// on runs f on a thread that has the device's context, whatever it had before.
func on(t testing.TB, d *cuda.Device, f func(cuda.Thread)) {
	thread, err := d.Enter()
	require.NoError(t, err)
	defer thread.Leave()
	f(thread)
}

func stream(t testing.TB, d cuda.Thread) (s cuda.Stream) {
	on(t, d.Device, func(thread cuda.Thread) {
		var err error
		s, err = thread.NewStream(0)
		require.NoError(t, err)
	})
	t.Cleanup(func() { on(t, d.Device, func(thread cuda.Thread) { require.NoError(t, thread.DestroyStream(s)) }) })
	return s
}

func alloc(t testing.TB, d cuda.Thread, n int) (p cuda.Pointer) {
	on(t, d.Device, func(thread cuda.Thread) {
		var err error
		p, err = thread.Alloc(n)
		require.NoError(t, err)
	})
	t.Cleanup(func() { on(t, d.Device, func(thread cuda.Thread) { require.NoError(t, thread.Free(p)) }) })
	return p
}

func host(t testing.TB, d cuda.Thread, n int) (h *cuda.Host) {
	on(t, d.Device, func(thread cuda.Thread) {
		var err error
		h, err = thread.AllocHost(n)
		require.NoError(t, err)
	})
	t.Cleanup(func() { on(t, d.Device, func(thread cuda.Thread) { require.NoError(t, thread.FreeHost(h)) }) })
	return h
}

// addOne adds 1 to count words at an address.
type addOne struct {
	at    cuda.Pointer
	count uint32
	_     uint32
}

const testPTX = `.version 7.0
.target sm_80
.address_size 64
.visible .entry nothing(.param .align 8 .b8 p[8]) { ret; }
.visible .entry add_one(.param .align 8 .b8 p[16]) {
	.reg .b64 %d<4>;
	.reg .b32 %r<7>;
	.reg .pred %q<2>;
	ld.param.u64 %d1, [p];
	ld.param.u32 %r1, [p+8];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.u32 %r5, %r2, %r3, %r4;
	setp.ge.u32 %q1, %r5, %r1;
	@%q1 bra DONE;
	mul.wide.u32 %d2, %r5, 4;
	add.u64 %d3, %d1, %d2;
	ld.global.u32 %r6, [%d3];
	add.u32 %r6, %r6, 1;
	st.global.u32 [%d3], %r6;
DONE:
	ret;
}
`

func function(t testing.TB, thread cuda.Thread, name string) cuda.Function {
	m, err := thread.LoadModule("test", []byte(testPTX))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, thread.UnloadModule(m)) })
	f, err := thread.Function(m, name)
	require.NoError(t, err)
	return f
}

func TestGPUIsDescribed(t *testing.T) {
	for _, d := range gpus(t) {
		name, err := d.Name()
		require.NoError(t, err)
		uuid, err := d.UUID()
		require.NoError(t, err)
		bus, err := d.PCIBusID()
		require.NoError(t, err)
		memory, err := d.Memory()
		require.NoError(t, err)
		major, err := d.Attribute(cuda.ComputeCapabilityMajor)
		require.NoError(t, err)
		cudaMajor, cudaMinor, err := d.Driver().Version()
		require.NoError(t, err)
		t.Logf("%v: %s %s at %s, %d MiB, compute capability %d, CUDA %d.%d from %s", d, name, uuid, bus, memory>>20, major,
			cudaMajor, cudaMinor, d.Driver().Path)
		require.Len(t, uuid, len("GPU-")+36)
		require.True(t, strings.HasPrefix(d.Driver().Path, "/"), d.Driver().Path)
		require.GreaterOrEqual(t, major, 8)
	}
	_, err := gpus(t)[0].Driver().Device(1000)
	require.ErrorContains(t, err, "cuda: cuDeviceGet on device 1000: CUDA_ERROR_INVALID_DEVICE (101): invalid device ordinal")
}

func TestGPUMemoryAndEvents(t *testing.T) {
	thread := enter(t, gpus(t)[0])
	s, other := stream(t, thread), stream(t, thread)
	const n = 1 << 20
	h, p := host(t, thread, n), alloc(t, thread, n)
	timed := []cuda.Event{0, 0}
	for i := range timed {
		e, err := thread.NewEvent(true)
		require.NoError(t, err)
		defer func() { require.NoError(t, thread.DestroyEvent(e)) }()
		timed[i] = e
	}
	require.NoError(t, thread.Record(timed[0], s))
	require.NoError(t, thread.Set8(p, 0x5a, n, s))
	require.NoError(t, thread.Set32(p+4096, 0x01020304, 1, s))
	require.NoError(t, thread.Record(timed[1], s))
	require.NoError(t, thread.WaitEvent(other, timed[1]))
	require.NoError(t, thread.Copy(h.Device, p, n, other))
	require.NoError(t, thread.Synchronize(other))
	require.Equal(t, bytes.Repeat([]byte{0x5a}, 4096), h.Bytes[:4096])
	require.Equal(t, []byte{4, 3, 2, 1, 0x5a}, h.Bytes[4096:4101])
	ms, err := thread.Elapsed(timed[0], timed[1])
	require.NoError(t, err)
	require.Less(t, ms, float32(1000))
	done, err := thread.EventDone(timed[1])
	require.NoError(t, err)
	require.True(t, done)
	device, err := thread.Driver().PointerAttribute(cuda.PointerDevice, p+100)
	require.NoError(t, err)
	require.Zero(t, device)
	context, err := thread.Driver().PointerAttribute(cuda.PointerContext, p)
	require.NoError(t, err)
	require.Equal(t, uint64(thread.Context()), context)
	_, err = thread.Driver().PointerAttribute(cuda.PointerDevice, 4096)
	require.ErrorIs(t, err, cuda.InvalidValue)
	_, err = thread.Alloc(1 << 50)
	require.ErrorIs(t, err, cuda.OutOfMemory)
	require.ErrorContains(t, err, "bytes)")
}

func TestGPUStreamValues(t *testing.T) {
	thread := enter(t, gpus(t)[0])
	s, other := stream(t, thread), stream(t, thread)
	p := alloc(t, thread, 256)
	require.NoError(t, thread.Set32(p, 0, 64, s))
	require.NoError(t, thread.Synchronize(s))
	require.NoError(t, thread.Wait32(other, p, 7))
	time.Sleep(5 * time.Millisecond)
	done, err := thread.StreamDone(other)
	require.NoError(t, err)
	require.False(t, done, "the stream waits")
	require.NoError(t, thread.Write32(s, p, 8))
	require.NoError(t, thread.Synchronize(other))
}

func TestGPUKernelAndGraph(t *testing.T) {
	thread := enter(t, gpus(t)[0])
	s := stream(t, thread)
	f := function(t, thread, "add_one")
	p, h := alloc(t, thread, 4096), host(t, thread, 4096)
	require.NoError(t, thread.Set32(p, 0, 1024, s))
	args := &addOne{at: p, count: 1000}
	require.NoError(t, thread.Launch(f, cuda.Grid{Blocks: 4, Threads: 256}, unsafe.Pointer(args), s))
	require.NoError(t, thread.BeginCapture(s, cuda.CaptureThreadLocal))
	status, id, err := thread.Capturing(s)
	require.NoError(t, err)
	require.Equal(t, cuda.CaptureActive, status)
	require.NotZero(t, id)
	for range 3 {
		require.NoError(t, thread.Launch(f, cuda.Grid{Blocks: 4, Threads: 256}, unsafe.Pointer(args), s))
	}
	args.count = 0 // the driver has copied it
	graph, err := thread.EndCapture(s)
	require.NoError(t, err)
	status, _, err = thread.Capturing(s)
	require.NoError(t, err)
	require.Equal(t, cuda.CaptureNone, status)
	for range 5 {
		require.NoError(t, thread.LaunchGraph(graph, s))
	}
	require.NoError(t, thread.Copy(h.Device, p, 4096, s))
	require.NoError(t, thread.Synchronize(s))
	require.NoError(t, thread.DestroyGraph(graph))
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&h.Bytes[0])), 1024)
	require.Equal(t, []uint32{16, 16, 0}, []uint32{words[0], words[999], words[1000]})
	mode, err := thread.ExchangeCaptureMode(cuda.CaptureRelaxed)
	require.NoError(t, err)
	_, err = thread.ExchangeCaptureMode(mode)
	require.NoError(t, err)
}

func TestGPURejectsModules(t *testing.T) {
	thread := enter(t, gpus(t)[0])
	_, err := thread.LoadModule("broken", []byte(strings.Replace(testPTX, "mul.wide.u32", "mul.nonsense", 1)))
	require.ErrorIs(t, err, cuda.InvalidPTX)
	require.ErrorContains(t, err, "module broken: ptxas")
	_, err = thread.LoadModule("new", []byte(strings.Replace(testPTX, ".version 7.0", ".version 99.0", 1)))
	require.Error(t, err)
	t.Log(err)
	m, err := thread.LoadModule("good", []byte(testPTX))
	require.NoError(t, err)
	_, err = thread.Function(m, "absent")
	require.ErrorIs(t, err, cuda.NotFound)
	require.ErrorContains(t, err, ": absent")
	require.NoError(t, thread.UnloadModule(m))
}

func TestGPUPeers(t *testing.T) {
	devices := gpus(t)
	for _, a := range devices {
		for _, b := range devices {
			if a == b {
				continue
			}
			yes, err := a.CanAccess(b)
			require.NoError(t, err)
			rank, err := a.PeerAttribute(cuda.P2PPerformanceRank, b)
			require.NoError(t, err)
			t.Logf("%v to %v: access %v, performance rank %d", a, b, yes, rank)
			if yes {
				thread := enter(t, a)
				require.NoError(t, thread.EnablePeer(b))
				require.NoError(t, thread.EnablePeer(b), "twice is no error")
			}
		}
	}
	last := enter(t, devices[len(devices)-1])
	p := alloc(t, last, 4096)
	first := enter(t, devices[0])
	s, q, h := stream(t, first), alloc(t, first, 4096), host(t, first, 4096)
	require.NoError(t, first.Set8(q, 9, 4096, s))
	require.NoError(t, first.Copy(p, q, 4096, s))
	require.NoError(t, first.Copy(h.Device, p, 4096, s))
	require.NoError(t, first.Synchronize(s))
	require.Equal(t, bytes.Repeat([]byte{9}, 4096), h.Bytes)
}

func TestGPUCountsErrorsOfTheStream(t *testing.T) {
	thread := enter(t, gpus(t)[0])
	// Not a copy: the driver takes an address that it does not know for one of the host, and reads there.
	err := thread.Set8(4096, 1, 3, stream(t, thread))
	require.ErrorIs(t, err, cuda.InvalidValue)
	require.ErrorContains(t, err, "cuda: cuMemsetD8Async on device 0: CUDA_ERROR_INVALID_VALUE (1)")
}

func BenchmarkGPULaunch(b *testing.B) {
	thread := enter(b, gpus(b)[0])
	s, f := stream(b, thread), function(b, thread, "nothing")
	args := unsafe.Pointer(new(int64))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := thread.Launch(f, cuda.Grid{Blocks: 1, Threads: 32}, args, s); err != nil {
			b.Fatal(err)
		}
		if i++; i%512 == 0 {
			require.NoError(b, thread.Synchronize(s))
		}
	}
	require.NoError(b, thread.Synchronize(s))
}

func BenchmarkGPULaunchAndWait(b *testing.B) {
	thread := enter(b, gpus(b)[0])
	s, f := stream(b, thread), function(b, thread, "nothing")
	args := unsafe.Pointer(new(int64))
	for b.Loop() {
		require.NoError(b, thread.Launch(f, cuda.Grid{Blocks: 1, Threads: 32}, args, s))
		require.NoError(b, thread.Synchronize(s))
	}
}

func BenchmarkGPUEnter(b *testing.B) {
	d := gpus(b)[0]
	enter(b, d)
	for b.Loop() {
		thread, err := d.Enter()
		if err != nil {
			b.Fatal(err)
		}
		thread.Leave()
	}
}

// BenchmarkGPUCalls measures what the calls of a small operation cost the host, without the waits for the device.
func BenchmarkGPUCalls(b *testing.B) {
	d := gpus(b)[0]
	on(b, d, func(t cuda.Thread) {
		s, with, f := stream(b, t), stream(b, t), function(b, t, "nothing")
		args := unsafe.Pointer(new(int64))
		repeat, err := t.NewRepeat(f, 8, with)
		require.NoError(b, err)
		defer func() { require.NoError(b, t.DestroyRepeat(repeat)) }()
		require.NoError(b, t.BeginCapture(with, cuda.CaptureThreadLocal))
		require.NoError(b, t.Launch(f, cuda.Grid{Blocks: 1, Threads: 32}, args, with))
		graph, err := t.EndCapture(with)
		require.NoError(b, err)
		defer func() { require.NoError(b, t.DestroyGraph(graph)) }()
		for _, g := range []cuda.Grid{{Blocks: 1, Threads: 32}, {Blocks: 8, Threads: 128}, {Blocks: 64, Threads: 256}} {
			grid := fmt.Sprintf("/%dx%d", g.Blocks, g.Threads)
			b.Run("launch"+grid, timed(d, s, func(t cuda.Thread) error { return t.Launch(f, g, args, s) }))
			b.Run("ahead"+grid, timed(d, s, func(t cuda.Thread) error { return t.LaunchAhead(f, g, args, s) }))
			b.Run("repeat"+grid, timed(d, s, func(t cuda.Thread) error {
				_, err := t.LaunchRepeat(repeat, g, args, s)
				return err
			}))
		}
		b.Run("graph", timed(d, s, func(t cuda.Thread) error { return t.LaunchGraph(graph, s) }))
		b.Run("capturing", timed(d, s, func(t cuda.Thread) error {
			_, _, err := t.Capturing(s)
			return err
		}))
	})
}

// timed benchmarks a call, and lets the device catch up off the clock.
func timed(d *cuda.Device, s cuda.Stream, call func(cuda.Thread) error) func(*testing.B) {
	return func(b *testing.B) {
		thread := enter(b, d)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if err := call(thread); err != nil {
				b.Fatal(err)
			}
			if i++; i%256 == 0 {
				b.StopTimer()
				require.NoError(b, thread.Synchronize(s))
				b.StartTimer()
			}
		}
	}
}
