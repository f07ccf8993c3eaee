package nccl_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/pg"
)

// muteDriver is a driver whose calls of the hot path do nothing once it is quiet. So the time that is measured is this module's.
func muteDriver(d *cuda.Driver, quiet *atomic.Bool) *cuda.Driver {
	m := *d
	var context cuda.Context // of the rank that goes on
	m.CtxGetCurrent = func() (cuda.Context, cuda.Result) {
		if quiet.Load() && context != 0 {
			return context, cuda.Success
		}
		c, r := d.CtxGetCurrent()
		if context == 0 {
			context = c
		}
		return c, r
	}
	m.EventCreate = func(flags cuda.EventFlags) (cuda.Event, cuda.Result) {
		if quiet.Load() { // an event belongs to the context that the thread really has
			if r := d.CtxSetCurrent(context); r != cuda.Success {
				return 0, r
			}
		}
		return d.EventCreate(flags)
	}
	m.StreamGetCaptureInfo = func(s cuda.Stream) (cuda.CaptureStatus, uint64, cuda.Result) {
		if quiet.Load() {
			return cuda.CaptureNone, 0, cuda.Success
		}
		return d.StreamGetCaptureInfo(s)
	}
	m.EventRecord = func(e cuda.Event, s cuda.Stream) cuda.Result {
		if quiet.Load() {
			return cuda.Success
		}
		return d.EventRecord(e, s)
	}
	m.StreamWaitEvent = func(s cuda.Stream, e cuda.Event) cuda.Result {
		if quiet.Load() {
			return cuda.Success
		}
		return d.StreamWaitEvent(s, e)
	}
	m.EventQuery = func(e cuda.Event) cuda.Result {
		if quiet.Load() {
			return cuda.Success
		}
		return d.EventQuery(e)
	}
	return &m
}

// busyPolls is how often a communicator that does not block is asked after a launch until it is through.
const busyPolls = 3

// muteNCCL is a library that takes every call and does nothing. Launches on communicators that do not block are in progress for some
// questions.
func muteNCCL(b *testing.B, blocking bool) *nccl.Library {
	var handles atomic.Uintptr
	var busy [4]int // by communicator
	of := func(nccl.CommHandle) nccl.Result { return nccl.Success }
	l, err := nccl.New("mute", nccl.Table{
		GetVersion:     func(v *int32) nccl.Result { *v = ncclsim.Version; return nccl.Success },
		GetErrorString: func(r nccl.Result) string { return r.String() },
		GetUniqueId:    func(*nccl.UniqueID) nccl.Result { return nccl.Success },
		CommInitRank: func(c *nccl.CommHandle, _ int, _ *nccl.UniqueID, _ int) nccl.Result {
			*c = nccl.CommHandle(handles.Add(1))
			return nccl.Success
		},
		CommInitRankConfig: func(c *nccl.CommHandle, _ int, _ *nccl.UniqueID, _ int, config *nccl.RawConfig) nccl.Result {
			require.Equal(b, blocking, config.Blocks())
			*c = nccl.CommHandle(handles.Add(1))
			return nccl.InProgress
		},
		CommGetAsyncError: func(c nccl.CommHandle, r *nccl.Result) nccl.Result {
			if *r = nccl.Success; busy[c] > 0 {
				busy[c]--
				*r = nccl.InProgress
			}
			return nccl.Success
		},
		CommDestroy: of,
		CommAbort:   of,
		AllReduce: func(_, _ cuda.Pointer, _ int, _ nccl.DType, _ nccl.Op, c nccl.CommHandle, _ cuda.Stream) nccl.Result {
			if blocking {
				return nccl.Success
			}
			busy[c] = busyPolls
			return nccl.InProgress
		},
	})
	require.NoError(b, err)
	return l
}

// BenchmarkHostCost measures what the front end costs the host beside the calls of NCCL and of the driver, with communicators that block and
// with others. The aim is 1.5 µs.
func BenchmarkHostCost(b *testing.B) {
	for _, blocking := range []bool{true, false} {
		for _, entries := range []int{2000, -1} {
			for _, async := range []bool{false, true} {
				b.Run(fmt.Sprintf("blocking=%v/entries=%d/async=%v", blocking, entries, async), func(b *testing.B) { hostCost(b, blocking, entries, async) })
			}
		}
	}
}

func hostCost(b *testing.B, blocking bool, entries int, async bool) {
	const size = 2
	devices := cudasim.New(cudasim.Config{Devices: 1})
	cudasim.Limit(b, devices)
	defer devices.Close()
	quiet := &atomic.Bool{}
	d, l := muteDriver(devices.Driver(), quiet), muteNCCL(b, blocking)
	groups, err := pg.InProcess(b.Context(), size, pg.Config{Backends: "cpu:host,cuda:nccl", Recorder: pg.RecorderOptions{Entries: entries}})
	require.NoError(b, err)
	ctx := nccl.With(b.Context(), nccl.Options{Driver: d, Library: l, Config: nccl.Config{NonBlocking: !blocking}})
	on, err := d.Device(0)
	require.NoError(b, err)
	thread, err := on.Enter()
	require.NoError(b, err)
	at, err := thread.Alloc(1 << 10)
	require.NoError(b, err)
	thread.Leave()
	x := colligo.OnDevice(on.Place(), uintptr(at), 256, colligo.Float32)
	var all sync.WaitGroup
	for _, g := range groups {
		all.Go(func() { require.NoError(b, g.AllReduceAsync(ctx, x, colligo.Sum).Wait(ctx)) })
	}
	all.Wait()
	quiet.Store(true)
	b.ReportAllocs()
	for b.Loop() {
		if async {
			err = groups[0].AllReduceAsync(ctx, x, colligo.Sum).Wait(ctx)
		} else {
			err = groups[0].AllReduce(ctx, x, colligo.Sum)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	quiet.Store(false)
	for _, g := range groups {
		require.NoError(b, g.Close())
	}
}
