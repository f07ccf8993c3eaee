package peer

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/staged"
)

var stages = flag.Bool("peer.stage", false, "with peer.child: stage through host memory")

// TestGPUStagedProcesses stages among ranks in processes of their own.
func TestGPUStagedProcesses(t *testing.T) {
	_, n := gpus(t)
	inProcesses(t, children(t, max(n, 2), "-peer.stage"))
}

// stagedRank is what each rank of the tests on devices that stage does.
func stagedRank(r *rank) error {
	for _, n := range []int{0, 1, 1000, 1<<17 + 3} {
		if err := r.everything(n); err != nil {
			return err
		}
	}
	for _, c := range append(allTypes(10_001), trial{dtype: colligo.BFloat16, op: colligo.Sum, count: 1 << 24}) {
		if err := r.allReduce(c); err != nil {
			return err
		}
	}
	return first(r.wander(1<<17), func() error { return r.crowd(3 * staged.OpenTransfers) })
}

// TestGPUStaged runs everything on devices that are made to stage, with slots of many rounds and of few.
func TestGPUStaged(t *testing.T) {
	d, n := gpus(t)
	size := max(n, 2)
	for _, memory := range []int{1 << 20, 0} {
		for _, transport := range []string{"shm", "tcp"} {
			t.Run(fmt.Sprintf("ranks=%d/%s/%d", size, transport, memory), func(t *testing.T) {
				c := crew{transport: transport, devices: n, driver: one(d), options: same(Options{Memory: memory, Staged: true}), half: gpuHalf}
				onStaged(t, size, c, stagedRank)
			})
		}
	}
}

// TestGPUStagedFailure leaves one rank out of a sum: the others' streams go on, and the error names it.
func TestGPUStagedFailure(t *testing.T) {
	d, n := gpus(t)
	o := Options{Staged: true, Timeout: 3 * time.Second}
	onStaged(t, max(n, 2), crew{transport: "shm", devices: n, driver: one(d), options: same(o)}, func(r *rank) error {
		x, err := r.begun()
		if err != nil {
			return err
		}
		if r.g.Rank() != 1 {
			_ = r.g.AllReduce(r.ctx, x, colligo.Sum) // the group may have failed by then
		}
		return first(r.failed("rank 1 has not entered"), r.freed)
	})
}

// BenchmarkStaged times float32 sums back to back on two devices that are made to stage. Without COLLIGO_GPU the devices are
// simulated: then copies are the machine's own, and the time is that of the host.
func BenchmarkStaged(b *testing.B) {
	for _, bytes := range []int{1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("ranks=2/bytes=%d", bytes), func(b *testing.B) {
			c := crew{transport: "shm", devices: 2, options: same(Options{Staged: true}), half: bytes + 2*margin}
			if os.Getenv("COLLIGO_GPU") == "" {
				c.driver = one(checked(b, islands(b, 2, nil)).Driver())
			} else {
				d, n := gpus(b)
				c.driver, c.devices = one(d), min(n, 2)
			}
			b.SetBytes(int64(bytes))
			onStaged(b, 2, c, func(r *rank) error {
				x := r.tensor(0, colligo.Float32, 0, bytes/4)
				if err := first(r.put(x, make([]byte, bytes)),
					func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) },
					r.freed); err != nil {
					return err
				}
				if r.g.Rank() == 0 {
					b.ResetTimer()
				}
				for range b.N {
					if err := r.g.AllReduce(r.ctx, x, colligo.Sum); err != nil {
						return err
					}
				}
				return r.freed()
			})
			b.StopTimer()
		})
	}
}
