package peer

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
)

// TestWatchdogReadsWhileCodeLoads has the watchdog of each rank read the heap's words whenever a rank has begun the capture that makes a
// kernel's graph. Loading may last longer than the watchdog waits before it reads.
func TestWatchdogReadsWhileCodeLoads(t *testing.T) {
	t.Parallel()
	const ranks, n = 2, 1000
	sim := simulated(t, ranks)
	driver := *sim.Driver()
	var watchdogs [ranks]atomic.Pointer[backend]
	var reads atomic.Int32
	driver.StreamBeginCapture = func(s cuda.Stream, m cuda.CaptureMode) cuda.Result {
		result := sim.Driver().StreamBeginCapture(s, m)
		for rank := range watchdogs {
			b := watchdogs[rank].Load()
			if b == nil {
				continue
			}
			read := make(chan error)
			go func() {
				read <- streamorder.OnDevice(b.device, func(t cuda.Thread) error {
					if b.watchdog.read(t) != nil {
						reads.Add(1)
					}
					return nil
				})
			}()
			assert.NoError(t, <-read)
		}
		return result
	}
	onRanks(t, &driver, ranks, ranks, simHalf, Options{}, func(r *rank) error {
		b, err := r.backend()
		if err != nil {
			return err
		}
		watchdogs[r.g.Rank()].Store(b)
		defer watchdogs[r.g.Rank()].Store(nil)
		x := r.tensor(0, colligo.Float32, 0, n)
		want, err := reduced(colligo.Float32, colligo.Sum, ranks, n)
		return first(err,
			func() error { return r.put(x, values(colligo.Float32, colligo.KindSum, r.g.Rank(), n)) },
			func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) }, // loads its kernels
			func() error { return r.expect("the sum", x, want) },
			func() error { return r.g.Barrier(r.ctx) })
	})
	assert.Positive(t, reads.Load())
}
