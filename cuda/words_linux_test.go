//go:build amd64 || arm64

package cuda

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// recorder is a C function that stands in for every function of the driver: it keeps the words that it was handed.
type recorder struct{ words []uintptr }

func (r *recorder) driver(t *testing.T) *Driver {
	callback := purego.NewCallback(func(a, b, c, d, e, f, g, h, i, j, k, l, m, n uintptr) uintptr {
		r.words = []uintptr{a, b, c, d, e, f, g, h, i, j, k, l, m, n}
		return 0
	})
	l, err := resolve("recorder", func(string) uintptr { return callback })
	require.NoError(t, err)
	return l.driver()
}

// out stands for an address that the test cannot know.
const out = ^uintptr(0)

// A wordCase is a call, and the words that C must be handed.
type wordCase struct {
	name string
	call func()
	want []uintptr
}

func TestWordsOfEachCall(t *testing.T) {
	var r recorder
	d := r.driver(t)
	for _, c := range append(callsOfStreams(d), callsOfMemory(d)...) {
		c.call()
		for i, want := range c.want {
			if want == out {
				require.NotZero(t, r.words[i], "word %d of %s is an address", i, c.name)
			} else {
				require.Equal(t, want, r.words[i], "word %d of %s", i, c.name)
			}
		}
	}
}

// TestWordOfTheContext hands C the address of a word, by the way that no function in Go may take: C's time writes there.
func TestWordOfTheContext(t *testing.T) {
	d, before := driverOf(t, "time"), time.Now().Unix()-1 // C's clock may be some milliseconds late
	c, r := d.CtxGetCurrent()
	require.LessOrEqual(t, before, int64(c))
	require.LessOrEqual(t, int64(c), time.Now().Unix())
	require.EqualValues(t, c, r)
}

func callsOfStreams(d *Driver) []wordCase {
	minus := uintptr(uint32(0xffffffff))
	return []wordCase{
		{"GetErrorName", func() { d.GetErrorName(700) }, []uintptr{700, out}},
		{"GetErrorString", func() { d.GetErrorString(-1) }, []uintptr{minus, out}},
		{"Init", func() { d.Init() }, []uintptr{0}},
		{"DeviceGet", func() { d.DeviceGet(3) }, []uintptr{out, 3}},
		{"DeviceGetName", func() { d.DeviceGetName(3) }, []uintptr{out, 256, 3}},
		{"DeviceGetUUID", func() { d.DeviceGetUUID(3) }, []uintptr{out, 3}},
		{"DeviceGetAttribute", func() { d.DeviceGetAttribute(75, 3) }, []uintptr{out, 75, 3}},
		{"DeviceCanAccessPeer", func() { d.DeviceCanAccessPeer(3, 4) }, []uintptr{out, 3, 4}},
		{"DeviceGetP2PAttribute", func() { d.DeviceGetP2PAttribute(1, 3, 4) }, []uintptr{out, 1, 3, 4}},
		{"DevicePrimaryCtxRetain", func() { d.DevicePrimaryCtxRetain(3) }, []uintptr{out, 3}},
		{"CtxSetCurrent", func() { d.CtxSetCurrent(9) }, []uintptr{9}},
		{"CtxEnablePeerAccess", func() { d.CtxEnablePeerAccess(9) }, []uintptr{9, 0}},
		{"StreamCreateWithPriority", func() { d.StreamCreateWithPriority(1, -1) }, []uintptr{out, 1, minus}},
		{"StreamWaitEvent", func() { d.StreamWaitEvent(5, 6) }, []uintptr{5, 6, 0}},
		{"StreamWriteValue32", func() { d.StreamWriteValue32(5, 1<<40, 7) }, []uintptr{5, 1 << 40, 7, 0}},
		{"StreamWaitValue32", func() { d.StreamWaitValue32(5, 1<<40, 7, 1) }, []uintptr{5, 1 << 40, 7, 1}},
		{"StreamBeginCapture", func() { d.StreamBeginCapture(5, 2) }, []uintptr{5, 2}},
		{"StreamEndCapture", func() { d.StreamEndCapture(5) }, []uintptr{5, out}},
		{"StreamGetCaptureInfo", func() { d.StreamGetCaptureInfo(5) }, []uintptr{5, out, out, 0, 0, 0}},
		{"ThreadExchangeStreamCaptureMode", func() { d.ThreadExchangeStreamCaptureMode(2) }, []uintptr{out}},
		{"EventCreate", func() { d.EventCreate(2) }, []uintptr{out, 2}},
		{"EventRecord", func() { d.EventRecord(6, 5) }, []uintptr{6, 5}},
		{"EventElapsedTime", func() { d.EventElapsedTime(6, 7) }, []uintptr{out, 6, 7}},
	}
}

func callsOfMemory(d *Driver) []wordCase {
	host, args := unsafe.Pointer(new(int64)), unsafe.Pointer(new(int64))
	return []wordCase{
		{"MemAlloc", func() { d.MemAlloc(1 << 33) }, []uintptr{out, 1 << 33}},
		{"MemGetInfo", func() { d.MemGetInfo() }, []uintptr{out, out}},
		{"MemcpyAsync", func() { d.MemcpyAsync(1<<40, 1<<41, 1<<33, 5) }, []uintptr{1 << 40, 1 << 41, 1 << 33, 5}},
		{"MemsetD8Async", func() { d.MemsetD8Async(1<<40, 7, 8, 5) }, []uintptr{1 << 40, 7, 8, 5}},
		{"MemsetD32Async", func() { d.MemsetD32Async(1<<40, 7, 8, 5) }, []uintptr{1 << 40, 7, 8, 5}},
		{"MemHostAlloc", func() { d.MemHostAlloc(64, 3) }, []uintptr{out, 64, 3}},
		{"MemHostRegister", func() { d.MemHostRegister(host, 8, 3) }, []uintptr{uintptr(host), 8, 3}},
		{"MemHostGetDevicePointer", func() { d.MemHostGetDevicePointer(host) }, []uintptr{out, uintptr(host), 0}},
		{"PointerGetAttribute", func() { d.PointerGetAttribute(9, 1<<40) }, []uintptr{out, 9, 1 << 40}},
		{"MemGetAllocationGranularity", func() { d.MemGetAllocationGranularity(3) }, []uintptr{out, out, 0}},
		{"MemCreate", func() { d.MemCreate(64, 3) }, []uintptr{out, 64, out, 0}},
		{"MemAddressReserve", func() { d.MemAddressReserve(64) }, []uintptr{out, 64, 0, 0, 0}},
		{"MemMap", func() { d.MemMap(1<<40, 64, 8) }, []uintptr{1 << 40, 64, 0, 8, 0}},
		{"MemUnmap", func() { d.MemUnmap(1<<40, 64) }, []uintptr{1 << 40, 64}},
		{"MemSetAccess", func() { d.MemSetAccess(1<<40, 64, 3) }, []uintptr{1 << 40, 64, out, 1}},
		{"MemExportToShareableHandle", func() { d.MemExportToShareableHandle(8) }, []uintptr{out, 8, 1, 0}},
		{"MemImportFromShareableHandle", func() { d.MemImportFromShareableHandle(11) }, []uintptr{out, 11, 1}},
		{"IpcGetMemHandle", func() { d.IpcGetMemHandle(1 << 40) }, []uintptr{out, 1 << 40}},
		{"ModuleLoadDataEx", func() { d.ModuleLoadDataEx([]byte{0}) }, []uintptr{out, out, 2, out, out}},
		{"ModuleGetFunction", func() { d.ModuleGetFunction(8, "f") }, []uintptr{out, 8, out}},
		{"FuncLoad", func() { d.FuncLoad(8) }, []uintptr{8}},
		{"FuncGetAttribute", func() { d.FuncGetAttribute(Registers, 8) }, []uintptr{out, 4, 8}},
		{"LaunchKernel", func() { d.LaunchKernel(8, 2, 3, 4, 5, args) }, []uintptr{8, 2, 1, 1, 3, 1, 1, 4, 5, out, 0}},
		{"LaunchAhead", func() { d.LaunchAhead(8, 2, 3, 4, 5, args) }, []uintptr{out, 8, out, 0}},
		{"GraphInstantiate", func() { d.GraphInstantiate(8) }, []uintptr{out, 8, 0}},
		{"GraphLaunch", func() { d.GraphLaunch(8, 5) }, []uintptr{8, 5}},
		{"GraphLaunchOutside", func() { d.GraphLaunchOutside(8, 5) }, []uintptr{8, 5}},
	}
}

// TestLaunchOutside asks whether a stream is captured, and launches only if it is not and the question was answered.
func TestLaunchOutside(t *testing.T) {
	var asked, launched []uintptr
	var status CaptureStatus
	var refusal, failure Result
	query := purego.NewCallback(func(s uintptr, at *CaptureStatus, id *uint64, a, b, c uintptr) uintptr {
		asked = []uintptr{s, a, b, c}
		*at, *id = status, 1<<40
		return uintptr(refusal)
	})
	launch := purego.NewCallback(func(e, s uintptr) uintptr {
		launched = append(launched, e, s)
		return uintptr(failure)
	})
	l, err := resolve("", func(name string) uintptr {
		if name == "cuGraphLaunch" {
			return launch
		}
		return query
	})
	require.NoError(t, err)
	for range 3 {
		for _, c := range []struct {
			status           CaptureStatus
			refusal, failure Result
			captured         bool
			want             Result
			launches         bool
		}{
			{launches: true},
			{failure: NotSupported, want: NotSupported, launches: true},
			{status: CaptureActive, captured: true},
			{status: CaptureInvalidated, captured: true},
			{refusal: InvalidContext, want: InvalidContext},
		} {
			asked, launched, status, refusal, failure = nil, nil, c.status, c.refusal, c.failure
			captured, r := l.driver().GraphLaunchOutside(1<<41, 1<<42)
			require.Equal(t, c.captured, captured)
			require.Equal(t, c.want, r)
			require.Equal(t, []uintptr{1 << 42, 0, 0, 0}, asked)
			require.Equal(t, c.launches, launched != nil)
			if c.launches {
				require.Equal(t, []uintptr{1 << 41, 1 << 42}, launched)
			}
		}
	}
}

func TestHandlesAreHandedByValue(t *testing.T) {
	var r recorder
	d := r.driver(t)
	var h IPCHandle
	for i := range h {
		h[i] = byte(i)
	}
	d.IpcOpenMemHandle(&h, IPCLazyPeerAccess)
	if runtime.GOARCH != "amd64" {
		require.Equal(t, uintptr(IPCLazyPeerAccess), r.words[2])
		return
	}
	require.Equal(t, uintptr(IPCLazyPeerAccess), r.words[1])
	require.Equal(t, (*[8]uintptr)(unsafe.Pointer(&h))[:], r.words[6:14], "the handle lies on the stack")
}

func TestStructuresAreLaidOutAsInC(t *testing.T) {
	require.Equal(t, uintptr(32), unsafe.Sizeof(allocationProp{}))
	require.Equal(t, uintptr(8), unsafe.Offsetof(allocationProp{}.location))
	require.Equal(t, uintptr(12), unsafe.Sizeof(accessDesc{}))
	require.Equal(t, uintptr(8), unsafe.Offsetof(accessDesc{}.flags))
	require.Equal(t, uintptr(56), unsafe.Sizeof(launchConfig{}))
	require.Equal(t, uintptr(32), unsafe.Offsetof(launchConfig{}.stream))
	require.Equal(t, uintptr(48), unsafe.Offsetof(launchConfig{}.count))
	require.Equal(t, uintptr(72), unsafe.Sizeof(launchAttribute{}))
	require.Equal(t, uintptr(8), unsafe.Offsetof(launchAttribute{}.value))
}

// TestLaunchAheadSaysItAll launches with frames that other calls have used, whose parts are filled in once.
func TestLaunchAheadSaysItAll(t *testing.T) {
	var config launchConfig
	var attribute launchAttribute
	var args uintptr
	callback := purego.NewCallback(func(c *launchConfig, f uintptr, params *uintptr, extra uintptr) uintptr {
		config, attribute, args = *c, *c.attributes, *params
		config.attributes = nil
		return 0
	})
	l, err := resolve("", func(name string) uintptr { return callback })
	require.NoError(t, err)
	for i := range uint32(3) {
		p := unsafe.Pointer(new(int64))
		require.Equal(t, Success, l.driver().LaunchAhead(8, 2+i, 3+i, 4+i, Stream(5+i), p))
		require.Equal(t, launchConfig{grid: [3]uint32{2 + i, 1, 1}, block: [3]uint32{3 + i, 1, 1}, shared: 4 + i, stream: Stream(5 + i), count: 1}, config)
		require.Equal(t, launchAttribute{id: streamSerialization, value: 1}, attribute)
		require.Equal(t, uintptr(p), args)
	}
}

// yielding is a driver whose every function is libc's sched_yield, which takes anything and returns 0.
func yielding(t testing.TB) *Driver { return driverOf(t, "sched_yield") }

// driverOf is a driver whose every function is one of libc's.
func driverOf(t testing.TB, function string) *Driver {
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	require.NoError(t, err)
	at, err := purego.Dlsym(libc, function)
	require.NoError(t, err)
	l, err := resolve("libc", func(string) uintptr { return at })
	require.NoError(t, err)
	return l.driver()
}

// hot calls what collectives call.
func hot(t testing.TB, thread Thread, args unsafe.Pointer) {
	again, err := thread.Enter()
	for _, err := range []error{err,
		again.Launch(1, Grid{2, 3, 4}, args, 5), again.LaunchAhead(1, Grid{2, 3, 4}, args, 5), again.Copy(1, 2, 3, 4), again.Set8(1, 2, 3, 4), again.Set32(1, 2, 3, 4),
		again.Write32(1, 2, 3), again.Wait32(1, 2, 3), again.Record(1, 2), again.WaitEvent(1, 2), again.LaunchGraph(1, 2), outside(again)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := again.EventDone(1); err != nil {
		t.Fatal(err)
	}
	again.Leave()
}

func outside(t Thread) error {
	_, r := t.driver.GraphLaunchOutside(1, 2)
	return t.check("cuGraphLaunch", r)
}

// BenchmarkCalls measures what it costs to go to C: for one call, and for two that go together, of a function that does
// nothing.
func BenchmarkCalls(b *testing.B) {
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	require.NoError(b, err)
	at, err := purego.Dlsym(libc, "labs") // of 0, and of the address that it takes the stream for
	require.NoError(b, err)
	l, err := resolve("libc", func(string) uintptr { return at })
	require.NoError(b, err)
	d := l.driver()
	b.Run("calls=one", func(b *testing.B) {
		for b.Loop() {
			d.GraphLaunch(0, 0)
		}
	})
	b.Run("calls=apart", func(b *testing.B) {
		for b.Loop() {
			d.StreamGetCaptureInfo(0)
			d.GraphLaunch(0, 0)
		}
	})
	b.Run("calls=together", func(b *testing.B) {
		for b.Loop() {
			d.GraphLaunchOutside(0, 0)
		}
	})
}

func BenchmarkLaunchWithoutDriver(b *testing.B) {
	thread := Thread{Device: &Device{driver: yielding(b)}}
	args := unsafe.Pointer(new(int64))
	b.ReportAllocs()
	for b.Loop() {
		if err := thread.Launch(1, Grid{1, 32, 0}, args, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func TestFileOfAFunction(t *testing.T) {
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	require.NoError(t, err)
	at, err := purego.Dlsym(libc, "sched_yield")
	require.NoError(t, err)
	require.Contains(t, fileAt(at, ""), "libc")
	require.Equal(t, "unknown", fileAt(1, "unknown"))
}

func TestNoDriverSaysWhatWasSearched(t *testing.T) {
	_, err := searchIn([]string{"libcolligo-absent.so.1", "/nowhere/libcolligo-absent.so.1"})
	require.ErrorIs(t, err, ErrNoDriver)
	require.ErrorContains(t, err, "cuda: no NVIDIA driver: searched libcolligo-absent.so.1, /nowhere/libcolligo-absent.so.1: ")
	_, err = searchIn([]string{"libcolligo-absent.so.1", "libc.so.6"})
	require.ErrorContains(t, err, "cuda: the driver libc.so.6 is too old")
	require.Equal(t, "libcuda.so.1", places[0], "the loader's own choice comes first")
}
