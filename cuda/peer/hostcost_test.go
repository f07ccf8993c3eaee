package peer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
)

// muted is a driver whose calls of the hot path can be made to do nothing. So one rank alone enqueues as much as it likes,
// and the time measured is this module's part. Once quiet it stays quiet, for a thread that has entered the device meanwhile
// has no context.
type muted struct {
	cuda.Driver
	quiet   atomic.Bool
	context atomic.Uintptr // if it is not 0, what every thread seems to have
}

func mute(d *cuda.Driver) *muted {
	m := &muted{Driver: *d}
	m.CtxGetCurrent = func() (cuda.Context, cuda.Result) {
		if c := m.context.Load(); c != 0 {
			return cuda.Context(c), cuda.Success
		}
		return d.CtxGetCurrent()
	}
	m.EventCreate = func(flags cuda.EventFlags) (cuda.Event, cuda.Result) {
		if c := m.context.Load(); c != 0 { // an event belongs to the context that the thread really has
			if r := d.CtxSetCurrent(cuda.Context(c)); r != cuda.Success {
				return 0, r
			}
		}
		return d.EventCreate(flags)
	}
	m.StreamGetCaptureInfo = func(s cuda.Stream) (cuda.CaptureStatus, uint64, cuda.Result) {
		if m.quiet.Load() {
			return cuda.CaptureNone, 0, cuda.Success
		}
		return d.StreamGetCaptureInfo(s)
	}
	m.ThreadExchangeStreamCaptureMode = func(mode cuda.CaptureMode) (cuda.CaptureMode, cuda.Result) {
		if m.quiet.Load() {
			return cuda.CaptureGlobal, cuda.Success
		}
		return d.ThreadExchangeStreamCaptureMode(mode)
	}
	m.EventRecord = func(e cuda.Event, s cuda.Stream) cuda.Result {
		if m.quiet.Load() {
			return cuda.Success
		}
		return d.EventRecord(e, s)
	}
	m.StreamWaitEvent = func(s cuda.Stream, e cuda.Event) cuda.Result {
		if m.quiet.Load() {
			return cuda.Success
		}
		return d.StreamWaitEvent(s, e)
	}
	m.EventQuery = func(e cuda.Event) cuda.Result {
		if m.quiet.Load() {
			return cuda.Success
		}
		return d.EventQuery(e)
	}
	m.muteLaunches(d)
	return m
}

func (m *muted) muteLaunches(d *cuda.Driver) {
	m.LaunchKernel = func(f cuda.Function, blocks, threads, shared uint32, s cuda.Stream, args unsafe.Pointer) cuda.Result {
		if m.quiet.Load() {
			return cuda.Success
		}
		return d.LaunchKernel(f, blocks, threads, shared, s, args)
	}
	m.LaunchAhead = func(f cuda.Function, blocks, threads, shared uint32, s cuda.Stream, args unsafe.Pointer) cuda.Result {
		if m.quiet.Load() {
			return cuda.Success
		}
		return d.LaunchAhead(f, blocks, threads, shared, s, args)
	}
	m.GraphLaunch = func(e cuda.GraphExec, s cuda.Stream) cuda.Result {
		if m.quiet.Load() {
			return cuda.Success
		}
		return d.GraphLaunch(e, s)
	}
	m.GraphLaunchOutside = func(e cuda.GraphExec, s cuda.Stream) (bool, cuda.Result) {
		if m.quiet.Load() {
			return false, cuda.Success
		}
		return d.GraphLaunchOutside(e, s)
	}
	m.GraphExecKernelNodeSetParams = func(e cuda.GraphExec, n cuda.GraphNode, f cuda.Function, blocks, threads, shared uint32, args unsafe.Pointer) cuda.Result {
		if m.quiet.Load() {
			return cuda.Success
		}
		return d.GraphExecKernelNodeSetParams(e, n, f, blocks, threads, shared, args)
	}
}

// BenchmarkDeviceOp measures the host's cost of a small operation of a rank on a device, beside the driver's own calls. It
// does so with the flight recorder, which takes the call stacks, and without.
func BenchmarkDeviceOp(b *testing.B) {
	for _, w := range []struct {
		name     string
		recorder pg.RecorderOptions
	}{{"on", pg.RecorderOptions{}}, {"off", pg.RecorderOptions{Entries: -1}}} {
		b.Run("recorder="+w.name, func(b *testing.B) { benchmarkOps(b, w.recorder) })
	}
}

// hostRanks is the size of the group that is measured.
const hostRanks = 4

func benchmarkOps(b *testing.B, r pg.RecorderOptions) {
	sim := abortable(b, hostRanks)
	groups, err := pg.InProcess(b.Context(), hostRanks, pg.Config{Recorder: r})
	require.NoError(b, err)
	driver, ranks := mute(sim.Driver()), make([]*rank, hostRanks)
	for i, g := range groups {
		ranks[i], err = newRank(b.Context(), g, &driver.Driver, i, simHalf, Options{})
		require.NoError(b, err)
	}
	together := func(f func(r *rank) error) {
		var all sync.WaitGroup
		for _, r := range ranks {
			all.Go(func() {
				if err := f(r); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		require.False(b, b.Failed())
	}
	defer together((*rank).close)
	for _, o := range hostOps() {
		together(func(r *rank) error { return first(o.call(r.ctx, r), func() error { return r.g.Barrier(r.ctx) }) }) // loads code
	}
	driver.quiet.Store(true)
	driver.context.Store(uintptr(ranks[0].device.Context()))
	defer driver.context.Store(0)
	for _, o := range hostOps() {
		b.Run(fmt.Sprintf("%s/bytes=%d", o.name, hostBytes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := o.call(ranks[0].ctx, ranks[0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// hostBytes is the size of the tensors that are measured, as the program of measurements counts it: of all parts together.
const hostBytes = 1 << 10

type hostOp struct {
	name string
	call func(ctx context.Context, r *rank) error
}

func hostOps() []hostOp {
	const all, part = hostBytes / 4, hostBytes / 4 / hostRanks
	return []hostOp{
		{"all_reduce", func(ctx context.Context, r *rank) error {
			return r.g.AllReduce(ctx, r.tensor(0, colligo.Float32, 0, all), colligo.Sum)
		}},
		{"all_gather", func(ctx context.Context, r *rank) error {
			return r.g.AllGatherIntoTensor(ctx, r.tensor(1, colligo.Float32, 0, all), r.tensor(0, colligo.Float32, 0, part))
		}},
		{"reduce_scatter", func(ctx context.Context, r *rank) error {
			return r.g.ReduceScatterTensor(ctx, r.tensor(1, colligo.Float32, 0, part), r.tensor(0, colligo.Float32, 0, all), colligo.Sum)
		}},
		{"broadcast", func(ctx context.Context, r *rank) error {
			return r.g.Broadcast(ctx, r.tensor(0, colligo.Float32, 0, all), 0)
		}},
		{"all_to_all", func(ctx context.Context, r *rank) error {
			return r.g.AllToAllSingle(ctx, r.tensor(1, colligo.Float32, 0, all), r.tensor(0, colligo.Float32, 0, all), nil, nil)
		}},
		{"sendrecv", func(ctx context.Context, r *rank) error {
			return r.g.Coalesce(ctx, func(b *pg.Batch) error {
				b.Send(r.tensor(0, colligo.Float32, 0, all), (r.g.Rank()+1)%hostRanks, 0)
				b.Recv(r.tensor(1, colligo.Float32, 0, all), (r.g.Rank()+hostRanks-1)%hostRanks, 0)
				return nil
			})
		}},
		{"all_reduce_async", func(ctx context.Context, r *rank) error {
			return r.g.AllReduceAsync(ctx, r.tensor(0, colligo.Float32, 0, all), colligo.Sum).Wait(ctx)
		}},
	}
}
