package peer

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/internal/freeport"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// Tests on real devices run when COLLIGO_GPU is set, and then must find one. Ranks take the devices in turn, so that two
// ranks on one device is the least that is tested.

var child = flag.String("peer.child", "", "run one rank of TestGPUProcesses: its address in the group")

var (
	loop  = flag.Bool("peer.loop", false, "with peer.child: reduce until a rank is lost")
	start = flag.Bool("peer.start", false, "with peer.child: reduce once and say when that was done")
)

const gpuHalf = 160 << 20

// gpus returns the driver and the number of devices.
func gpus(t testing.TB) (*cuda.Driver, int) {
	t.Helper()
	if os.Getenv("COLLIGO_GPU") == "" {
		t.Skip("COLLIGO_GPU is not set")
	}
	kept, err := contexts()
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) == 0 {
		t.Fatal("no devices")
	}
	return kept[0].Driver(), len(kept)
}

// contexts opens all devices once: to make a context and to destroy it takes a good part of a second, too long for each test.
var contexts = sync.OnceValues(func() ([]*cuda.Device, error) {
	d, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	n, err := d.Devices()
	all := make([]*cuda.Device, n)
	for i := range all {
		var err2 error
		all[i], err2 = d.Device(i)
		err = errors.Join(err, err2)
	}
	return all, err
})

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

// TestGPUAlgorithms takes each algorithm for sizes that the table would give to another.
func TestGPUAlgorithms(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		for _, algorithm := range []Algorithm{LL, LLTwoShot, Tiles, CopyRing, Fused} {
			t.Run(fmt.Sprintf("ranks=%d/%s", size, algorithm), func(t *testing.T) {
				o := Options{Rules: []Rule{{Coll: plan.AllReduce, Algorithm: algorithm, Blocks: 32, Threads: 512}}}
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
		if err := first(r.moves(n),
			func() error { return r.lists(n) },
			func() error { return r.reduces(colligo.Float32, n) },
			func() error { return r.reduces(colligo.BFloat16, n) },
			func() error { return r.pairs(n) },
			func() error { return r.splits(n) },
			func() error { return r.folds(colligo.Float32, colligo.Sum, n) },
			func() error { return r.folds(colligo.BFloat16, colligo.PremulSum(0.5), n) }); err != nil {
			return err
		}
	}
	return r.replayed(5000)
}

// TestGPUBroadcasts has thousands of broadcasts follow one another by the sentinel protocol, in one step each and in several. A rank that
// clears a slot too late loses what comes into it next, and its broadcast never ends.
func TestGPUBroadcasts(t *testing.T) {
	d, n := gpus(t)
	onRanks(t, d, 2, n, gpuHalf, Options{}, func(r *rank) error {
		if err := r.g.SetTimeout(20 * time.Second); err != nil {
			return err
		}
		for _, bytes := range []int{2 << 20, 16 << 20, 64 << 20} {
			own, root := values(colligo.Uint8, colligo.KindSum, r.g.Rank(), bytes), values(colligo.Uint8, colligo.KindSum, 0, bytes)
			x := r.tensor(0, colligo.Uint8, 0, bytes)
			err := r.try(fmt.Sprintf("broadcasts of %d bytes", bytes), x, own, x, root, func() (err error) {
				for n := 0; n < 3000 && err == nil; n++ {
					err = r.g.Broadcast(r.ctx, x, 0)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// pairs is mail where there is somebody to send to.
func (r *rank) pairs(n int) error {
	if r.g.Size() == 1 {
		return nil
	}
	return r.eager(n)
}

// children are the commands that run TestGPUChild for each rank of a group.
func children(t *testing.T, size int, flags ...string) (all []*exec.Cmd) {
	t.Helper()
	at := freeport.Address(t, "127.0.0.1")
	for i := range size {
		url := fmt.Sprintf("tcp://%s?rank=%d&world_size=%d", at, i, size)
		all = append(all, exec.CommandContext(t.Context(), os.Args[0], append(flags, "-test.run=^TestGPUChild$", "-test.v",
			"-test.timeout=90s", "-peer.child="+url)...))
	}
	return all
}

// TestGPUProcesses runs every rank in a process of its own.
func TestGPUProcesses(t *testing.T) {
	_, n := gpus(t)
	inProcesses(t, children(t, max(n, 2)))
}

// inProcesses runs all ranks' processes to their ends.
func inProcesses(t *testing.T, ranks []*exec.Cmd) {
	t.Helper()
	done := make(chan error, len(ranks))
	for i, c := range ranks {
		go func() {
			out, err := c.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("rank %d: %w\n%s", i, err, out)
			}
			done <- err
		}()
	}
	for range ranks {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestGPUChild is one rank of TestGPUProcesses, or of TestGPUKilled.
func TestGPUChild(t *testing.T) {
	if *child == "" {
		t.Skip("only other tests run this")
	}
	d, n := gpus(t)
	c := pg.Config{Init: *child}
	if *start {
		c.Log = slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	g, err := pg.Init(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	o, work := Options{Staged: *stages}, gpuRank
	switch {
	case *hosts:
		o.host, work = fmt.Sprint("host ", g.Rank()), apartRank
	case *stages:
		work = stagedRank
	case *start:
		work = (*rank).once
	case *loop:
		work = func(r *rank) error {
			begun := make(chan struct{})
			go func() {
				<-begun
				fmt.Println(loops)
			}()
			err := r.untilLost(begun, g.Size()-1)
			fmt.Println("lost rank", g.Size()-1, g.Err())
			return err
		}
	case g.Size() > n:
		work = sharedRank
	}
	if err := life(t.Context(), g, d, g.Rank()%n, gpuHalf, o, work); err != nil {
		t.Error(err)
	}
}

// once sums once and says when the sum was there.
func (r *rank) once() error {
	x := r.tensor(0, colligo.Float32, 0, 1<<20)
	if err := first(r.put(x, make([]byte, x.Size())),
		func() error { return r.g.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(r.ctx) }); err != nil {
		return err
	}
	fmt.Println(firstDone, time.Now().UnixNano())
	return nil
}

const firstDone = "reduced at"

// TestGPUStart logs the time from the start of a process to the end of its first sum, and the time to load each module. It
// does so without the code that the driver has kept of earlier compilations, and with it.
func TestGPUStart(t *testing.T) {
	_, n := gpus(t)
	for _, env := range []string{"CUDA_CACHE_DISABLE=1", "CUDA_CACHE_DISABLE=0"} {
		type result struct {
			text string
			err  error
		}
		began, results := time.Now(), make(chan result)
		size := max(min(n, 4), 2)
		for _, c := range children(t, size, "-peer.start=true") {
			c.Env = append(os.Environ(), env)
			go func() {
				out, err := c.CombinedOutput()
				results <- result{string(out), err}
			}()
		}
		for i := range size {
			r := <-results
			if r.err != nil {
				t.Errorf("%v\n%s", r.err, r.text)
			}
			for line := range strings.Lines(r.text) {
				var at int64
				if k, _ := fmt.Sscanf(line, firstDone+" %d", &at); k == 1 {
					t.Logf("%s: first all_reduce of 4 MiB %v after the start", env, time.Unix(0, at).Sub(began).Round(time.Millisecond))
				} else if i == 0 && strings.Contains(line, "kernels loaded") {
					t.Logf("%s: %s", env, strings.TrimSpace(line))
				}
			}
		}
	}
}

// sharedRank does less than gpuRank, and with smaller tensors: processes that share a device run in turns of milliseconds.
func sharedRank(r *rank) error {
	for _, c := range allSizes(1 << 18) {
		if err := r.allReduce(c); err != nil {
			return err
		}
	}
	return first(r.moves(1000),
		func() error { return r.lists(1000) },
		func() error { return r.reduces(colligo.Float32, 1<<17+3) },
		func() error { return r.eager(1000) })
}
