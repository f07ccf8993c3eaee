package nccl_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg"
)

// BenchmarkGPUHostCost measures what a call costs the host on real GPUs: of the library as it is bound, and of a group over it. Ranks are
// threads of one process, each on a GPU of its own. They enqueue 64 calls at a time, and the clock stands while those run. A program in C
// that calls the library so is testdata/hostcost.c. The aim is that a group takes at most 1.5 µs more than that.
func BenchmarkGPUHostCost(b *testing.B) {
	if os.Getenv("COLLIGO_GPU") == "" {
		b.Skip("COLLIGO_GPU is not set")
	}
	d, err := cuda.Open()
	require.NoError(b, err)
	n, err := d.Devices()
	require.NoError(b, err)
	l, err := nccl.Open("")
	require.NoError(b, err)
	devices, indices := make([]*cuda.Device, n), make([]int, n)
	for i := range n {
		devices[i], err = d.Device(i)
		require.NoError(b, err)
		indices[i] = i
	}
	b.Run("library", func(b *testing.B) {
		comms, err := l.NewComms(indices)
		require.NoError(b, err)
		bursts(b, devices, func(rank int, x colligo.Tensor, s cuda.Stream) func() error {
			c, at := comms[rank], cuda.Pointer(x.Addr())
			sum, err := c.Reduction(colligo.Float32, colligo.Sum.Kind())
			assert.NoError(b, err)
			return func() error { return c.AllReduce(at, at, x.Len(), sum, s) }
		}, func(rank int) error { return comms[rank].Close() })
	})
	for name, o := range map[string]nccl.Options{"group": {}, "group that does not block": {Config: nccl.Config{NonBlocking: true}}} {
		b.Run(name, func(b *testing.B) {
			groups, err := pg.InProcess(b.Context(), n, pg.Config{Backends: "cpu:host,cuda:nccl"})
			require.NoError(b, err)
			o.Driver, o.Library = d, l
			ctx := nccl.With(b.Context(), o)
			bursts(b, devices, func(rank int, x colligo.Tensor, s cuda.Stream) func() error {
				ctx := streamorder.OnStream(ctx, s)
				return func() error { return groups[rank].AllReduce(ctx, x, colligo.Sum) }
			}, func(rank int) error { return groups[rank].Close() })
		})
	}
}

// bursts has each rank make calls on its device, and reports the time of one. The given functions return what calls, and close the rank.
func bursts(b *testing.B, devices []*cuda.Device, of func(rank int, x colligo.Tensor, s cuda.Stream) (call func() error), end func(rank int) error) {
	const burst = 64
	times := make([]time.Duration, len(devices))
	var all sync.WaitGroup
	b.ResetTimer()
	for rank, on := range devices {
		all.Go(func() {
			thread, err := on.Enter()
			if !assert.NoError(b, err) {
				return
			}
			defer thread.Leave()
			s, err := thread.NewStream(0)
			assert.NoError(b, err)
			at, err := thread.Alloc(8)
			assert.NoError(b, err)
			x := colligo.OnDevice(on.Place(), uintptr(at), 2, colligo.Float32)
			call := of(rank, x, s)
			for i := 0; i < b.N+burst; i += burst { // the first burst forms the communicator
				began := time.Now()
				for range burst {
					if !assert.NoError(b, call()) {
						return
					}
				}
				if i > 0 {
					times[rank] += time.Since(began)
				}
				assert.NoError(b, thread.Synchronize(s))
			}
			assert.NoError(b, end(rank))
			assert.NoError(b, thread.Free(at))
			assert.NoError(b, thread.DestroyStream(s))
		})
	}
	all.Wait()
	total := time.Duration(0)
	for _, t := range times {
		total += t
	}
	calls := (b.N + burst - 1) / burst * burst * len(devices)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(total.Nanoseconds())/float64(calls)/1e3, "µs/call")
}
