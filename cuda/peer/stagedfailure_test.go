package peer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/pg"
)

// parted is a crew whose devices do not reach each other, for groups that fail. Their streams then run in no order, so races
// are forgiven, but nothing else is.
func parted(t testing.TB, devices int, o Options) crew {
	t.Helper()
	sim := islands(t, devices, nil)
	t.Cleanup(func() {
		sim.Drain()
		require.Empty(t, sim.Faults())
		require.Empty(t, sim.Leaks())
		sim.Close()
	})
	return crew{devices: devices, driver: one(sim.Driver()), options: same(o)}
}

// begun sums once, so that all ranks have opened their backends, and returns the tensor.
func (r *rank) begun() (colligo.Tensor, error) {
	x := r.tensor(0, colligo.Float32, 0, 9000)
	return x, first(r.put(x, make([]byte, x.Size())), func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) }, r.freed)
}

// freed waits until nothing is on the rank's stream.
func (r *rank) freed() error {
	return r.synchronize()
}

// TestStagedFailures ends groups in the middle of operations. All ranks hear of it, and no stream waits any more.
func TestStagedFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fail  func(r *rank, x colligo.Tensor) // on rank 1
		texts []string
	}{
		{"missing", func(*rank, colligo.Tensor) {}, []string{"rank 1 has not entered"}},
		{"failed", func(r *rank, _ colligo.Tensor) { r.g.Abort(errors.New("out of luck")) }, []string{"out of luck"}},
		{"operation", func(r *rank, x colligo.Tensor) {
			r.g.AllReduceAsync(r.ctx, x, colligo.Max)
		}, []string{"rank", "called all_reduce", "max", "sum"}},
		{"length", func(r *rank, x colligo.Tensor) {
			r.g.AllReduceAsync(r.ctx, x.Slice(0, 8500), colligo.Sum)
		}, []string{"called all_reduce", "9000 float32 elements", "8500 float32 elements"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := Options{Memory: 24 << 10, Staged: true, Timeout: time.Minute}
			if c.name == "missing" {
				o.Timeout = waitedOut
			}
			onStaged(t, 3, parted(t, 3, o), func(r *rank) error {
				x, err := r.begun()
				if err != nil {
					return err
				}
				if r.g.Rank() == 1 {
					c.fail(r, x)
				} else {
					_ = r.g.AllReduce(r.ctx, x, colligo.Sum) // the group may have failed by then
				}
				return first(r.failed(c.texts...), r.freed)
			})
		})
	}
}

// TestStagedMessages sends messages that are not those that are received, in one round and in several.
func TestStagedMessages(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int{{100, 200}, {100, 9000}, {9000, 100}, {9000, 8500}} {
		t.Run(fmt.Sprintf("%d/%d", c[0], c[1]), func(t *testing.T) {
			t.Parallel()
			o := Options{Memory: 24 << 10, Staged: true}
			onStaged(t, 2, parted(t, 2, o), func(r *rank) error {
				x, err := r.begun()
				if err == nil && r.g.Rank() == 0 {
					err = r.g.Send(r.ctx, x.Slice(0, c[0]), 1, 7)
				} else if err == nil {
					err = r.g.Recv(r.ctx, x.Slice(0, c[1]), 0, 7)
				}
				if err := first(err,
					func() error { return r.failed("rank") },
					r.freed); err != nil || errors.Is(r.g.Err(), colligo.ErrMismatch) {
					return err
				}
				return fmt.Errorf("no mismatch: %w", r.g.Err())
			})
		})
	}
}

// TestStagedUnpinned has a rank that gets no host memory, or all too little. No other waits for it.
func TestStagedUnpinned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		memory int
		text   string
	}{{64 << 10, "host memory to stage in (peer.Options.Memory asks for less)"}, {2 << 10, "2048 bytes of pinned memory are too few for 2 ranks; 3072 would do"}} {
		t.Run(fmt.Sprint(c.memory), func(t *testing.T) {
			t.Parallel()
			sim := checked(t, islands(t, 2, nil))
			all := []*cudasim.Process{sim.Process(), sim.Process()}
			o := crew{devices: 2, driver: func(rank int) *cuda.Driver { return all[rank].Driver() },
				options: same(Options{Memory: c.memory, Staged: true})}
			onStaged(t, 2, o, func(r *rank) error {
				if r.g.Rank() == 1 && c.memory > 2<<10 {
					all[1].Fail("MemHostAlloc", 1, cuda.OutOfMemory)
				}
				return contains(r.g.AllReduce(r.ctx, r.tensor(0, colligo.Float32, 0, 10), colligo.Sum), c.text)
			})
		})
	}
}

// TestStagedUnwarmed has a rank that shares its device get no event for one of its streams. It enqueues nothing on a stream that it lacks, which
// the machine would report.
func TestStagedUnwarmed(t *testing.T) {
	t.Parallel()
	failed := 0
	for n := 80; n < 100; n++ {
		all := make([]*cudasim.Process, 2)
		sim := simulated(t, 1)
		for i := range all {
			all[i] = sim.Process()
		}
		o := crew{devices: 1, driver: func(rank int) *cuda.Driver { return all[rank].Driver() }, options: same(Options{Memory: 24 << 10, Staged: true})}
		onStaged(t, 2, o, func(r *rank) error {
			if r.g.Rank() == 1 {
				all[1].Fail("EventCreate", n, cuda.OutOfMemory)
			}
			err := r.g.AllReduce(r.ctx, r.tensor(0, colligo.Float32, 0, 10), colligo.Sum)
			if err == nil {
				return nil
			}
			if r.g.Rank() == 1 {
				failed++
			}
			return contains(err, "cuEventCreate")
		})
	}
	require.Positive(t, failed)
}

// TestStagedLeft has a rank leave while the others wait for it. Nothing is left of the groups, not a goroutine either:
// for the sake of counting the test is not parallel.
func TestStagedLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	o := Options{Memory: 24 << 10, Staged: true}
	onStaged(t, 3, parted(t, 3, o), func(r *rank) error {
		x, err := r.begun()
		if err != nil || r.g.Rank() == 1 {
			return err
		}
		works := []*pg.Work{r.g.AllReduceAsync(r.ctx, x, colligo.Sum), r.g.RecvAsync(r.ctx, r.tensor(1, colligo.Float32, 0, 3000), 1, 0)}
		if err := first(r.failed("rank 1"), r.freed); err != nil {
			return err
		}
		for _, w := range works {
			if err := w.Synchronize(context.Background()); !errors.Is(err, colligo.ErrPeerLost) {
				return fmt.Errorf("a work that was waited for: %w", err)
			}
		}
		return nil
	})
	const own = 1 // the machine's, which ends with the test
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before+own; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 64<<10)
			t.Fatalf("%d goroutines, before there were %d\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// TestStagedCapture says why a graph cannot have what is staged.
func TestStagedCapture(t *testing.T) {
	t.Parallel()
	o := Options{Memory: 24 << 10, Staged: true}
	onStaged(t, 2, parted(t, 2, o), func(r *rank) error {
		x, err := r.begun()
		if err != nil {
			return err
		}
		if r.g.Rank() == 1 {
			_ = r.g.AllReduce(r.ctx, x, colligo.Sum) // the group may have failed by then
			return first(r.failed("a graph cannot capture"), r.freed)
		}
		t, err := r.device.Enter()
		if err != nil {
			return err
		}
		defer t.Leave()
		if err := t.BeginCapture(r.stream, cuda.CaptureThreadLocal); err != nil {
			return err
		}
		refused := r.g.AllReduce(r.ctx, x, colligo.Sum)
		graph, err := t.EndCapture(r.stream) // the program's own, and untouched
		if err != nil {
			return err
		}
		return first(t.DestroyGraph(graph), func() error { return contains(refused, "a graph cannot capture all_reduce", "host") })
	})
}

// TestStagedStuck has all devices wait for something else than the group: that is said, and the group ends.
func TestStagedStuck(t *testing.T) {
	t.Parallel()
	o := Options{Memory: 24 << 10, Staged: true, Timeout: waitedOut}
	onStaged(t, 2, parted(t, 2, o), func(r *rank) error {
		x, err := r.begun()
		if err != nil {
			return err
		}
		t, err := r.device.Enter()
		if err != nil {
			return err
		}
		defer t.Leave()
		word := (*uint32)(unsafe.Pointer(&r.host.Bytes[0]))
		atomic.StoreUint32(word, 0)
		err = first(t.Wait32(r.stream, r.host.Device, 1),
			func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) },
			func() error { return r.failed("it waits for what is before it on its own device") })
		atomic.StoreUint32(word, 1)
		return first(err, r.freed)
	})
}

// TestStagedOptions refuses ranks that do not agree.
func TestStagedOptions(t *testing.T) {
	t.Parallel()
	sim := checked(t, islands(t, 2, nil))
	onStaged(t, 2, crew{devices: 2, driver: one(sim.Driver()), options: func(rank int) Options { return Options{Staged: rank == 0} }}, func(r *rank) error {
		x := r.tensor(0, colligo.Float32, 0, 10)
		return contains(r.g.AllReduce(r.ctx, x, colligo.Sum), "other options")
	})
}
