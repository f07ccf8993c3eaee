package cuda_test

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
)

// spinPTX has a kernel that runs until a word is not 0, but no longer than 4 s, and one that sets a word.
const spinPTX = `.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 p)
{
	.reg .u64 %a, %t, %e;
	.reg .u32 %v;
	.reg .pred %q;
	ld.param.u64 %a, [p];
	mov.u64 %e, %globaltimer;
	add.u64 %e, %e, 4000000000;
AGAIN:
	ld.volatile.global.u32 %v, [%a];
	setp.ne.u32 %q, %v, 0;
	@%q bra DONE;
	mov.u64 %t, %globaltimer;
	setp.lt.u64 %q, %t, %e;
	@%q bra AGAIN;
DONE:
	ret;
}
.visible .entry mark(.param .u64 p)
{
	.reg .u64 %a;
	ld.param.u64 %a, [p];
	st.volatile.global.u32 [%a], 1;
	ret;
}
`

// spinner runs the kernels of spinPTX.
type spinner struct {
	t          *testing.T
	device     *cuda.Device
	page       *cuda.Host
	spin, mark cuda.Function
	one, other cuda.Stream
}

func (s *spinner) word(i int) *uint32 { return (*uint32)(unsafe.Pointer(&s.page.Bytes[4*i])) }

// in calls f on a thread of its own, and returns when it is through.
func (s *spinner) in(f func(th cuda.Thread)) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		th, err := s.device.Enter()
		if err != nil {
			s.t.Error(err)
			return
		}
		defer th.Leave()
		f(th)
	}()
	return done
}

func (s *spinner) launch(f cuda.Function, word int, on cuda.Stream) <-chan struct{} {
	return s.in(func(th cuda.Thread) {
		p := s.page.Device + cuda.Pointer(4*word)
		if err := th.Launch(f, cuda.Grid{Blocks: 1, Threads: 1}, unsafe.Pointer(&p), on); err != nil {
			s.t.Error(err)
		}
	})
}

// waits calls f while a kernel runs. It reports whether f waits for the kernel, and whether a kernel launched after f does.
func (s *spinner) waits(f func(th cuda.Thread)) (call, launch bool) {
	atomic.StoreUint32(s.word(0), 0)
	atomic.StoreUint32(s.word(1), 0)
	<-s.launch(s.spin, 0, s.one)
	called := s.in(f)
	call = late(func() bool { return closed(called) })
	launched := s.launch(s.mark, 1, s.other)
	launch = late(func() bool { return atomic.LoadUint32(s.word(1)) == 1 })
	atomic.StoreUint32(s.word(0), 1)
	<-called
	<-launched
	<-s.in(func(th cuda.Thread) {
		require.NoError(s.t, th.Synchronize(s.one))
		require.NoError(s.t, th.Synchronize(s.other))
	})
	return call, launch
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// late reports whether something is not so within a while.
func late(so func() bool) bool {
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if so() {
			return false
		}
	}
	return !so()
}

// TestGPUWaits tries which calls wait for a kernel that runs, or have a kernel that is launched after them wait for it. Groups that share a
// device rely on the calls that must not. The others are logged, for they may be better on another driver.
func TestGPUWaits(t *testing.T) {
	d := gpus(t)[0]
	th := enter(t, d)
	m, err := th.LoadModule("spin", []byte(spinPTX))
	require.NoError(t, err)
	t.Cleanup(func() { on(t, d, func(th cuda.Thread) { require.NoError(t, th.UnloadModule(m)) }) })
	s := &spinner{t: t, device: d, one: stream(t, th), other: stream(t, th)}
	s.spin, err = th.Function(m, "spin")
	require.NoError(t, err)
	s.mark, err = th.Function(m, "mark")
	require.NoError(t, err)
	s.page, err = th.AllocHost(4096)
	require.NoError(t, err)
	t.Cleanup(func() { on(t, d, func(th cuda.Thread) { require.NoError(t, th.FreeHost(s.page)) }) })
	third, memory := stream(t, th), alloc(t, th, 4096)

	var p cuda.Pointer
	var h *cuda.Host
	var st cuda.Stream
	var e cuda.Event
	var loaded cuda.Module
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		name string
		may  bool // wait
		f    func(th cuda.Thread)
	}{
		{"cuMemAlloc", false, func(th cuda.Thread) { p, err = th.Alloc(32 << 20); must(err) }},
		{"cuMemFree", true, func(th cuda.Thread) { must(th.Free(p)) }},
		{"cuMemHostAlloc", false, func(th cuda.Thread) { h, err = th.AllocHost(1 << 20); must(err) }},
		{"cuMemFreeHost", true, func(th cuda.Thread) { must(th.FreeHost(h)) }},
		{"cuModuleLoadDataEx", true, func(th cuda.Thread) { loaded, err = th.LoadModule("spin", []byte(spinPTX)); must(err) }},
		{"cuFuncLoad", true, func(th cuda.Thread) { _, err := th.Function(loaded, "mark"); must(err) }},
		{"cuModuleUnload", true, func(th cuda.Thread) { must(th.UnloadModule(loaded)) }},
		{"cuStreamCreate", true, func(th cuda.Thread) { st, err = th.NewStream(0); must(err) }},
		{"cuStreamDestroy", false, func(th cuda.Thread) { must(th.DestroyStream(st)) }},
		{"cuEventCreate", false, func(th cuda.Thread) { e, err = th.NewEvent(true); must(err) }},
		{"cuEventDestroy", false, func(th cuda.Thread) { must(th.DestroyEvent(e)) }},
		{"cuMemsetD32Async", false, func(th cuda.Thread) { must(th.Set32(memory, 1, 16, third)) }},
		{"cuMemcpyAsync", false, func(th cuda.Thread) { must(th.Copy(s.page.Device+64, memory, 64, third)) }},
		{"cuStreamSynchronize", false, func(th cuda.Thread) { must(th.Synchronize(third)) }},
	} {
		call, launch := s.waits(c.f)
		if c.may {
			t.Logf("%s: waits %v, a launch after it waits %v", c.name, call, launch)
			continue
		}
		require.False(t, call, "%s waits for a kernel on another stream", c.name)
		require.False(t, launch, "a kernel that is launched after %s waits for a kernel on another stream", c.name)
	}
}
