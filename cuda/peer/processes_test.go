package peer

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/pg"
)

// TestProcesses runs ranks in processes of their own, one or two on a device.
func TestProcesses(t *testing.T) {
	t.Parallel()
	cases := []struct{ size, devices int }{{2, 2}, {4, 4}, {4, 2}, {2, 1}}
	if underRace {
		cases = cases[2:]
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("ranks=%d/devices=%d", c.size, c.devices), func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, c.devices)
			var drivers []*cuda.Driver
			for range c.size {
				drivers = append(drivers, sim.Process().Driver())
			}
			onDrivers(t, func(rank int) *cuda.Driver { return drivers[rank] }, c.size, c.devices, simHalf, small(CopyRing), func(r *rank) error {
				for _, n := range []int{7, 5000, 60_000} {
					if err := first(r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}),
						func() error { return r.moves(n) },
						func() error { return r.eager(n) }); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// streamed are the algorithms whose order across streams is tested.
var streamed = []Algorithm{LL, LLTwoShot, LL128, LL128TwoShot, Tiles, CopyRing, Fused, Sentinel}

// How many ranks sum, and how many elements at most.
const streamingRanks, streamingElements = 3, 50_000

// TestStreams changes the stream from call to call, without a wait of its own.
func TestStreams(t *testing.T) {
	t.Parallel()
	for _, algorithm := range streamed {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			o, n := taking(t, algorithm, streamingRanks, streamingElements)
			onSim(t, streamingRanks, o, func(r *rank) error { return r.wander(n) })
		})
	}
}

// TestStreamsOutOfOrder has a driver that forgets the waits of one of the program's two streams. With each algorithm the order
// that is missing is a race, and no wait lasts for ever. So it is where sums are staged. Some runs hide it: there the host, which
// all ranks share, has seen one call end before it enqueued the next.
func TestStreamsOutOfOrder(t *testing.T) {
	t.Parallel()
	for _, algorithm := range streamed {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			o, n := taking(t, algorithm, streamingRanks, streamingElements)
			outOfOrder(t, o, n)
		})
	}
	t.Run("staged", func(t *testing.T) {
		t.Parallel()
		outOfOrder(t, Options{Memory: 64 << 10, Staged: true}, 20_000)
	})
}

// outOfOrder fails t unless a run with forgetful drivers has a race.
func outOfOrder(t *testing.T, o Options, n int) {
	o.launch = paces[0] // kernels that are launched as one graph wait for each other
	for i := range uint64(10) {
		if found := outOfOrderRaces(t, o, n, *seed+i); len(found) > 0 {
			require.Equal(t, o.Staged, strings.Contains(found[0].String(), "colligo/cuda/staged."), "the race is\n%v", found[0])
			return
		}
	}
	t.Error("no run had a race")
}

// outOfOrderRaces returns the races of a run with forgetful drivers. Each rank has a process, for drivers that differ do not share one.
func outOfOrderRaces(t *testing.T, o Options, n int, seed uint64) []cudasim.Race {
	sim := kerneled(t, cudasim.Config{Devices: streamingRanks, Seed: seed, Patience: time.Second, EagerLoading: true})
	defer sim.Close()
	groups, err := pg.InProcess(t.Context(), streamingRanks, pg.Config{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	var ranks sync.WaitGroup
	for i, g := range groups {
		ranks.Go(func() {
			d := forgetful{Driver: *sim.Process().Driver()}
			// Besides races there are wrong sums, or kernels that wait for one another.
			_ = life(t.Context(), g, d.driver(), i, simHalf, o, func(r *rank) error {
				d.begun.Store(true)
				defer d.begun.Store(false)
				return r.wander(n)
			})
		})
	}
	ranks.Wait()
	sim.Drain()
	return sim.Races()
}

// forgetful is a rank's driver that leaves out the waits of one stream: of the first that is made once the program has begun.
// Until the program is done it also keeps from the watchdog what is done. For the order that a host has seen hides a wait that is
// missing.
type forgetful struct {
	cuda.Driver
	begun  atomic.Bool
	stream atomic.Uintptr
}

// beside reports whether a goroutine other than the program's calls the driver while the program runs.
func (f *forgetful) beside() bool {
	if !f.begun.Load() {
		return false
	}
	stack := make([]byte, 16<<10)
	return !bytes.Contains(stack[:runtime.Stack(stack, false)], []byte(").wander("))
}

func (f *forgetful) driver() *cuda.Driver {
	d := f.Driver
	d.StreamCreateWithPriority = func(flags cuda.StreamFlags, priority int) (cuda.Stream, cuda.Result) {
		s, r := f.StreamCreateWithPriority(flags, priority)
		if f.begun.Load() {
			f.stream.CompareAndSwap(0, uintptr(s))
		}
		return s, r
	}
	d.StreamWaitEvent = func(s cuda.Stream, e cuda.Event) cuda.Result {
		if uintptr(s) == f.stream.Load() {
			return cuda.Success
		}
		return f.StreamWaitEvent(s, e)
	}
	d.EventQuery = func(e cuda.Event) cuda.Result {
		if f.beside() {
			return cuda.NotReady
		}
		return f.EventQuery(e)
	}
	d.StreamQuery = func(s cuda.Stream) cuda.Result {
		if f.beside() {
			return cuda.NotReady
		}
		return f.StreamQuery(s)
	}
	return &d
}

// wander sums eight times on two streams in turn, every third time asynchronously, and compares at the end. Each sum is of
// a tensor of its own, so that only the group's memory orders the calls. Marks show that it does.
func (r *rank) wander(n int) error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	other, err := t.NewStream(0)
	if err != nil {
		return err
	}
	want, err := reduced(colligo.Float32, colligo.Sum, r.g.Size(), n)
	if err != nil {
		return err
	}
	var at [8]colligo.Tensor
	for i := range at {
		at[i] = r.tensor(i%2, colligo.Float32, i/2*(n+200), n)
		if err := r.put(at[i], values(colligo.Float32, colligo.KindSum, r.g.Rank(), n)); err != nil {
			return err
		}
	}
	// Memory of its own would be freed while a rank on the same device still works, and that can end in a deadlock: cuda.Array.Free.
	marks := cuda.Pointer(r.tensor(0, colligo.Int32, 4*(n+200), len(at)).Addr())
	for i, x := range at {
		ctx := r.ctx
		if i%2 == 1 {
			ctx = OnStream(ctx, other)
		}
		if err := t.Set32(marks+cuda.Pointer(4*i), 1, 1, streamorder.Of(ctx)); err != nil {
			return err
		}
		if i%3 == 2 {
			err = r.g.AllReduceAsync(ctx, x, colligo.Sum).Wait(r.ctx)
		} else {
			err = r.g.AllReduce(ctx, x, colligo.Sum)
		}
		if err != nil {
			return err
		}
		if i > 0 { // the call comes after the one before, and so after its mark, which was set on the other stream
			after := ctx
			if i%3 == 2 {
				after = r.ctx
			}
			if err := t.Set32(marks+cuda.Pointer(4*(i-1)), 2, 1, streamorder.Of(after)); err != nil {
				return err
			}
		}
	}
	return r.wandered(t, at[:], other, want)
}

// wandered compares the sums, and gives the other stream back.
func (r *rank) wandered(t cuda.Thread, at []colligo.Tensor, other cuda.Stream, want []byte) error {
	if err := t.Synchronize(other); err != nil {
		return err
	}
	for i := range at {
		if err := r.expect(fmt.Sprintf("sum %d", i), at[i], want); err != nil {
			return err
		}
	}
	// The group's next operation takes over from the stream that goes. A close would give it a second, which is little on a busy machine.
	return first(r.g.AllReduce(r.ctx, at[0], colligo.Sum), func() error { return t.DestroyStream(other) }, r.synchronize)
}
