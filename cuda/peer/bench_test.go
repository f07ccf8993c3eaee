package peer

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
)

// BenchmarkAllReduce times float32 sums back to back on one stream by events. The figure µs/op is the slowest rank's time on
// the device. The figure ns/op is the host's time for all ranks together. The group stays open for all sizes.
func BenchmarkAllReduce(b *testing.B) {
	d, n := gpus(b)
	for _, size := range []int{2, 4, 8} {
		if size > max(n, 2) {
			break
		}
		most := 1 << 30
		if size > n {
			most = 64 << 20 // ranks that share a device tell nothing more
		}
		jobs, results := make(chan job, symheap.MaxRanks), make(chan result, symheap.MaxRanks)
		done := make(chan struct{})
		go func() {
			defer close(done)
			onRanks(b, d, size, n, most+2*margin, Options{}, func(r *rank) error { return r.serve(jobs, results) })
		}()
		for bytes := 1 << 10; bytes <= most; bytes *= 4 {
			b.Run(fmt.Sprintf("ranks=%d/bytes=%d", size, bytes), func(b *testing.B) { measure(b, size, bytes, jobs, results) })
		}
		close(jobs)
		<-done
	}
}

type job struct{ n, bytes int }

type result struct {
	µs  float64
	err error
}

// serve times what is asked for until nothing more is. Every rank takes one of each round of jobs: nobody can take a
// second one before the round's barrier.
func (r *rank) serve(jobs <-chan job, results chan<- result) error {
	for j := range jobs {
		µs, err := r.timed(j.n, j.bytes)
		results <- result{µs, err}
		if err != nil {
			return err
		}
	}
	return nil
}

func measure(b *testing.B, size, bytes int, jobs chan<- job, results <-chan result) {
	for range size {
		jobs <- job{b.N, bytes}
	}
	slowest := 0.0
	for range size {
		r := <-results
		if r.err != nil {
			b.Fatal(r.err)
		}
		slowest = max(slowest, r.µs)
	}
	b.ReportMetric(slowest, "µs/op")
	b.ReportMetric(2*float64(size-1)/float64(size)*float64(bytes)/slowest/1000, "busGB/s")
}

// timed returns the microseconds of one of n all-reduces on the device, after some to warm up.
func (r *rank) timed(n, bytes int) (float64, error) {
	x := r.tensor(0, colligo.Float32, 0, bytes/4)
	repeat := func(n int) error {
		for range n {
			if err := r.g.AllReduce(r.ctx, x, colligo.Sum); err != nil {
				return err
			}
		}
		return nil
	}
	if err := repeat(5); err != nil {
		return 0, err
	}
	t, err := r.device.Enter()
	if err != nil {
		return 0, err
	}
	defer t.Leave()
	var at [2]cuda.Event
	for i := range at {
		if at[i], err = t.NewEvent(true); err != nil {
			return 0, err
		}
	}
	if err := first(t.Synchronize(r.stream), func() error { return r.g.Barrier(r.ctx) }); err != nil {
		return 0, err
	}
	if err := t.Record(at[0], r.stream); err != nil {
		return 0, err
	}
	if err := repeat(n); err != nil {
		return 0, err
	}
	if err := first(t.Record(at[1], r.stream), func() error { return t.Synchronize(r.stream) }); err != nil {
		return 0, err
	}
	ms, err := t.Elapsed(at[0], at[1])
	return float64(ms) * 1000 / float64(n), first(err,
		func() error { return t.DestroyEvent(at[0]) },
		func() error { return t.DestroyEvent(at[1]) })
}

// BenchmarkEnqueue measures what a small all-reduce costs the host beside the driver's own calls, which do nothing here.
func BenchmarkEnqueue(b *testing.B) {
	sim := abortable(b, 2)
	d := *sim.Driver()
	done := make(chan struct{})
	onRanks(b, &d, 2, 2, simHalf, Options{}, func(r *rank) error {
		x := r.tensor(0, colligo.Float32, 0, 256)
		if err := first(r.put(x, make([]byte, 1024)),
			func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) },
			func() error { return r.g.Barrier(r.ctx) }); err != nil {
			return err
		}
		if r.g.Rank() != 0 {
			<-done
			return nil
		}
		defer close(done)
		d.LaunchKernel = func(cuda.Function, uint32, uint32, uint32, cuda.Stream, unsafe.Pointer) cuda.Result {
			return cuda.Success
		}
		t, err := r.device.Enter() // the thread has to stay: another one has no context, whatever the table says
		if err != nil {
			return err
		}
		defer t.Leave()
		d.LaunchAhead = d.LaunchKernel
		d.GraphLaunchOutside = func(cuda.GraphExec, cuda.Stream) (bool, cuda.Result) { return false, cuda.Success }
		d.CtxGetCurrent = func() (cuda.Context, cuda.Result) { return r.device.Context(), cuda.Success }
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			if err := r.g.AllReduce(r.ctx, x, colligo.Sum); err != nil {
				return err
			}
		}
		b.StopTimer()
		d.LaunchKernel, d.CtxGetCurrent = sim.Driver().LaunchKernel, sim.Driver().CtxGetCurrent
		return nil
	})
}
