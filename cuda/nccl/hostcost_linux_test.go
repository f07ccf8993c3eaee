//go:build amd64 || arm64

package nccl_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg"
)

// BenchmarkGPUHostCost measures what a call costs the host on real GPUs. It is made in three ways: in C, of the library as it is bound, and
// of a group. Ranks are threads of one process, each on a GPU of its own. They enqueue bursts of 64 calls, and the clock stands while those
// run. The ways take turns of 32 bursts, for what a call costs in the library itself differs by a fifth from process to process. The metrics
// are medians. The aim is that a group takes at most 1.5 µs more than C.
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
	inC := burstInC(b, l)
	devices, indices := make([]*cuda.Device, n), make([]int, n)
	for i := range n {
		devices[i], err = d.Device(i)
		require.NoError(b, err)
		indices[i] = i
	}
	for name, o := range map[string]nccl.Options{"blocking": {}, "non-blocking": {Config: nccl.Config{NonBlocking: true}}} {
		b.Run(name, func(b *testing.B) {
			comms, err := l.NewComms(indices)
			require.NoError(b, err)
			groups, err := pg.InProcess(b.Context(), n, pg.Config{Backends: "cpu:host,cuda:nccl"})
			require.NoError(b, err)
			o.Driver, o.Library = d, l
			ctx := nccl.With(b.Context(), o)
			bursts(b, devices, func(rank int, x colligo.Tensor, s cuda.Stream) (calls []func(n int) time.Duration, end func()) {
				c, g, at := comms[rank], groups[rank], cuda.Pointer(x.Addr())
				sum, err := c.Reduction(colligo.Float32, colligo.Sum.Kind())
				assert.NoError(b, err)
				ctx := streamorder.OnStream(ctx, s)
				calls = []func(n int) time.Duration{
					func(n int) time.Duration { return inC(at, c, s, n) },
					func(n int) time.Duration {
						return timed(b, n, func() error { return c.AllReduce(at, at, x.Len(), sum, s) })
					},
					func(n int) time.Duration {
						return timed(b, n, func() error { return g.AllReduce(ctx, x, colligo.Sum) })
					},
				}
				return calls, func() {
					assert.NoError(b, g.Close())
					assert.NoError(b, c.Close())
				}
			})
		})
	}
}

// burstInC compiles the burst of testdata. The returned function calls ncclAllReduce n times, and returns the time of that.
func burstInC(b *testing.B, l *nccl.Library) func(x cuda.Pointer, c *nccl.Comm, s cuda.Stream, n int) time.Duration {
	b.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		b.Skip("no gcc to compile the calls in C:", err)
	}
	path := filepath.Join(b.TempDir(), "burst.so")
	out, err := exec.CommandContext(b.Context(), gcc, "-shared", "-fPIC", "-O2", "-o", path, "testdata/burst.c").CombinedOutput()
	require.NoError(b, err, string(out))
	symbol := func(path, name string) uintptr {
		handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
		require.NoError(b, err)
		at, err := purego.Dlsym(handle, name)
		require.NoError(b, err)
		return at
	}
	burst, call := symbol(path, "burst"), symbol(l.Path, "ncclAllReduce")
	return func(x cuda.Pointer, c *nccl.Comm, s cuda.Stream, n int) time.Duration {
		ns, _, _ := purego.SyscallN(burst, call, uintptr(x), uintptr(c.Handle()), uintptr(s), uintptr(n))
		assert.Positive(b, int(ns))
		return time.Duration(ns)
	}
}

// timed returns the time of n calls.
func timed(b *testing.B, n int, call func() error) time.Duration {
	b.Helper()
	var failed error
	began := time.Now()
	for range n {
		if err := call(); err != nil {
			failed = err
		}
	}
	took := time.Since(began)
	assert.NoError(b, failed)
	return took
}

// bursts has each rank make calls on its device, in three ways by turns, and reports the time of one call in each. The given function
// returns what makes a rank's calls, and what ends the rank.
func bursts(b *testing.B, devices []*cuda.Device,
	of func(rank int, x colligo.Tensor, s cuda.Stream) (calls []func(n int) time.Duration, end func())) {
	b.Helper()
	const burst, turn = 64, 32
	ways := []string{"C-µs/call", "library-µs/call", "group-µs/call"}
	times := make([][][]time.Duration, len(devices))
	var all sync.WaitGroup
	for rank, on := range devices {
		times[rank] = make([][]time.Duration, len(ways))
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
			calls, end := of(rank, colligo.OnDevice(on.Place(), uintptr(at), 2, colligo.Float32), s)
			for i := 0; i < b.N+burst*turn; i += burst * turn { // the first turn forms the communicators
				for way, call := range calls {
					for range turn {
						took := call(burst)
						if i > 0 {
							times[rank][way] = append(times[rank][way], took)
						}
						assert.NoError(b, thread.Synchronize(s))
					}
				}
			}
			end()
			assert.NoError(b, thread.Free(at))
			assert.NoError(b, thread.DestroyStream(s))
		})
	}
	all.Wait()
	b.ReportMetric(0, "ns/op")
	for way, name := range ways {
		var took []time.Duration
		for rank := range devices {
			took = append(took, times[rank][way]...)
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/burst/1e3, name)
	}
}
