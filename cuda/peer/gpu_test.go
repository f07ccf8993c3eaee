package peer

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// Tests on real devices run when COLLIGO_GPU is set, and then must find one. Ranks take the devices in turn, so that two
// ranks on one device is the least that is tested.

var child = flag.String("peer.child", "", "run one rank of TestGPUProcesses: its address in the group")

const gpuHalf = 160 << 20

// gpus returns the driver and the number of devices.
func gpus(t testing.TB) (*cuda.Driver, int) {
	t.Helper()
	if os.Getenv("COLLIGO_GPU") == "" {
		t.Skip("COLLIGO_GPU is not set")
	}
	d, err := cuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	n, err := d.Devices()
	if err != nil {
		t.Fatal(err)
	}
	return d, n
}

// sizes are the group sizes to test with so many devices.
func sizes(devices int) []int {
	if devices < 3 {
		return []int{1, 2}
	}
	return []int{2, devices}
}

func TestGPU(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			onRanks(t, d, size, n, gpuHalf, Options{}, gpuRank)
		})
	}
}

// TestGPUWays takes each way for sizes that the table would give to another.
func TestGPUWays(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		for _, way := range []Way{Packets, TwoShot, Tiles, Ring} {
			t.Run(fmt.Sprintf("ranks=%d/%s", size, way), func(t *testing.T) {
				o := Options{Choices: []Choice{{Coll: plan.AllReduce, Way: way, Blocks: 32, Threads: 512}}}
				onRanks(t, d, size, n, gpuHalf, o, func(r *rank) error {
					for _, c := range allSizes(1 << 22) {
						if err := r.allReduce(c); err != nil {
							return err
						}
					}
					return r.replayed(1 << 20)
				})
			})
		}
	}
}

// gpuRank is what each rank of the tests on devices does.
func gpuRank(r *rank) error {
	for _, c := range allSizes(1 << 22) {
		if err := r.allReduce(c); err != nil {
			return err
		}
	}
	for _, c := range allTypes(10_001) {
		if err := r.allReduce(c); err != nil {
			return err
		}
	}
	if err := r.allReduce(trial{dtype: colligo.BFloat16, op: colligo.Sum, count: 1 << 25}); err != nil {
		return err
	}
	for _, n := range []int{0, 1, 5, 1000, 1 << 14, 1<<17 + 3, 1<<20 + 1} {
		if err := first(r.moves(n), r.lists(n), r.reduces(colligo.Float32, n), r.reduces(colligo.BFloat16, n), r.pairs(n)); err != nil {
			return err
		}
	}
	return r.replayed(5000)
}

// pairs is mail where there is somebody to send to.
func (r *rank) pairs(n int) error {
	if r.g.Size() == 1 {
		return nil
	}
	return r.mail(n)
}

// TestGPUProcesses runs every rank in a process of its own.
func TestGPUProcesses(t *testing.T) {
	_, n := gpus(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	size := max(n, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	done := make(chan error, size)
	for i := range size {
		url := fmt.Sprintf("tcp://%s?rank=%d&world_size=%d", at, i, size)
		c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestGPUChild$", "-test.v", "-peer.child="+url)
		go func() {
			out, err := c.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("rank %d: %w\n%s", i, err, out)
			}
			done <- err
		}()
	}
	for range size {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestGPUChild is one rank of TestGPUProcesses.
func TestGPUChild(t *testing.T) {
	if *child == "" {
		t.Skip("only TestGPUProcesses runs this")
	}
	d, n := gpus(t)
	g, err := pg.Init(t.Context(), pg.Config{Init: *child})
	if err != nil {
		t.Fatal(err)
	}
	work := gpuRank
	if g.Size() > n {
		work = sharedRank
	}
	if err := life(t.Context(), g, d, g.Rank()%n, gpuHalf, Options{}, work); err != nil {
		t.Error(err)
	}
}

// sharedRank is gpuRank in small: processes that share a device take turns of milliseconds.
func sharedRank(r *rank) error {
	for _, c := range allSizes(1 << 18) {
		if err := r.allReduce(c); err != nil {
			return err
		}
	}
	return first(r.moves(1000), r.lists(1000), r.reduces(colligo.Float32, 1<<17+3), r.mail(1000))
}
