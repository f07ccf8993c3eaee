package peer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/tenants"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
)

// ranksOn makes two ranks of a group of their own on a device.
func ranksOn(t *testing.T, d *cuda.Driver) (both [2]*rank) {
	groups, err := pg.InProcess(t.Context(), 2, pg.Config{})
	require.NoError(t, err)
	for i, g := range groups {
		both[i], err = newRank(context.Background(), g, d, 0, simHalf, Options{})
		require.NoError(t, err)
	}
	return both
}

// sum has a rank add up its tensor of n elements, which are all zeros.
func (r *rank) sum(n int) error {
	x := r.tensor(0, colligo.Float32, 0, n)
	return first(r.put(x, make([]byte, x.Size())), func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) }, func() error {
		_, err := r.get(x)
		return err
	})
}

// sums has both ranks do so.
func sums(t *testing.T, both [2]*rank, n int) {
	done := make(chan error, 1)
	go func() { done <- both[1].sum(n) }()
	require.NoError(t, both[0].sum(n))
	require.NoError(t, <-done)
}

// besideOthers has a group open, work and close while an operation of another group waits on the same device. The rank that it waits for
// comes last of all: as if the same goroutine had to do all of this.
func besideOthers(t *testing.T, d *cuda.Driver) {
	waiting := ranksOn(t, d)
	sums(t, waiting, 100)
	x := waiting[0].tensor(0, colligo.Float32, 0, 100)
	w := waiting[0].g.AllReduceAsync(waiting[0].ctx, x, colligo.Sum)

	other := ranksOn(t, d)
	sums(t, other, 100)
	for _, r := range other {
		begin := time.Now()
		require.NoError(t, r.g.Close())
		require.Less(t, time.Since(begin), 20*time.Second, "Close waits until the other group is through")
	}

	require.NoError(t, waiting[1].sum(100))
	require.NoError(t, w.Synchronize(context.Background()))
	for _, r := range waiting {
		require.NoError(t, r.g.Close())
	}
	for _, r := range append(other[:], waiting[:]...) {
		require.NoError(t, r.close())
	}
}

func TestBesideOthers(t *testing.T) {
	t.Parallel()
	sim := machine(t, 1)
	besideOthers(t, sim.Driver())
	// A goroutine gives back the memory of the group that closed first.
	require.Eventually(t, func() bool { return len(sim.Leaks()) == 0 }, time.Minute, time.Millisecond)
	sim.Drain()
	require.Empty(t, sim.Faults())
	sim.Close()
}

func TestGPUBesideOthers(t *testing.T) {
	d, _ := gpus(t)
	besideOthers(t, d)
}

// TestMissingRankBeside leaves a sum out where both ranks share a device. Memory that a rank frees after Close has the driver wait for the
// other rank then.
func TestMissingRankBeside(t *testing.T) {
	t.Parallel()
	o := small(CopyRing) // streams wait for its words, which the rank cannot set then
	o.Timeout = waitedOut
	onRanks(t, abortable(t, 1).Driver(), 2, 1, simHalf, o, func(r *rank) error { return r.missing(50_000) })
}

// TestLateReleaseBeside leaves a sum out where both ranks share a device. The rank that waits for the sum releases its streams late, after more
// time than Close gives to other groups. Memory that the other rank freed meanwhile would keep the lock of the driver, and the late rank
// could never release its streams. The test runs on the simulator alone. The release is held up in a table of calls of its own. On a
// device that would be a second driver beside the other tests' one.
func TestLateReleaseBeside(t *testing.T) {
	t.Parallel()
	d, releases := *abortable(t, 1).Driver(), atomic.Int32{}
	write := d.StreamWriteValue32
	d.StreamWriteValue32 = func(s cuda.Stream, at cuda.Pointer, value uint32) cuda.Result {
		if value == ptx.Aborted {
			releases.Add(1)
			time.Sleep(3 * tenants.Limit)
		}
		return write(s, at, value)
	}
	o := small(CopyRing)
	o.Timeout = waitedOut
	onRanks(t, &d, 2, 1, simHalf, o, func(r *rank) error { return r.missing(50_000) })
	require.Positive(t, releases.Load())
}

// TestCopyRingBeside captures a sum of ranks that share a device, for which the rule says copy-ring. The ring carries what is not captured.
func TestCopyRingBeside(t *testing.T) {
	t.Parallel()
	d, launched := spied(simulated(t, 1, reduction{colligo.Float32, colligo.KindMax}).Driver())
	onRanks(t, d, 2, 1, simHalf, small(CopyRing), func(r *rank) error {
		x := r.tensor(0, colligo.Float32, 0, 100_000)
		once := func() error { return r.g.AllReduce(r.ctx, x, colligo.Max) }
		if err := first(r.put(x, make([]byte, x.Size())), once, func() error { return r.g.Barrier(r.ctx) }); err != nil {
			return err
		}
		if !launched.has(ptx.ReduceTwo) {
			return errors.New("no ring outside of a graph")
		}
		if err := r.g.Barrier(r.ctx); err != nil {
			return err
		}
		launched.clear()
		if err := r.g.Barrier(r.ctx); err != nil {
			return err
		}
		graph, err := r.captured(once)
		if err != nil {
			return err
		}
		if launched.has(ptx.ReduceTwo) {
			return errors.New("a graph has captured the ring")
		}
		return r.giveBack(graph)
	})
}

// TestBusyCaller closes a group while the program has more on the stream of its last operation, and destroys the stream. The memory of the
// group is given back when that is done.
func TestBusyCaller(t *testing.T) {
	t.Parallel()
	sim := machine(t, 1)
	both := ranksOn(t, sim.Driver())
	sums(t, both, 100)
	r := both[0]
	th, err := r.device.Enter()
	require.NoError(t, err)
	defer th.Leave()
	flag, other := cuda.Pointer(r.tensor(1, colligo.Float32, 0, 1).Addr()), r.stream
	require.NoError(t, th.Set32(flag, 0, 1, other))
	require.NoError(t, th.Wait32(other, flag, 1))
	for _, r := range both {
		_ = r.g.Close() // it tells of the stream
	}
	require.NoError(t, th.DestroyStream(other))
	r.stream, err = th.NewStream(0)
	require.NoError(t, err)
	require.NoError(t, th.Write32(r.stream, flag, 1))
	for _, r := range both {
		require.NoError(t, r.close())
	}
	require.Eventually(t, func() bool { return len(sim.Leaks()) == 0 }, time.Minute, time.Millisecond)
	sim.Drain()
	require.Empty(t, sim.Faults())
	sim.Close()
}

// TestUnstageBeside gathers values by the device until the group closes. The device's memory is freed for a call as for Close, and neither
// may wait for the other. Close gives back the memory of a call that it overtakes.
func TestUnstageBeside(t *testing.T) {
	t.Parallel()
	sim := simulated(t, 1)
	both := ranksOn(t, sim.Driver())
	sums(t, both, 100)
	var all sync.WaitGroup
	for _, r := range both {
		ctx := object.OnDevice(r.ctx, r.device.Place())
		all.Go(func() {
			for {
				if _, err := object.AllGather(ctx, r.g, object.JSON, r.g.Rank()); err != nil {
					return // the group is closed
				}
			}
		})
		all.Go(func() {
			time.Sleep(50 * time.Millisecond)
			_ = r.g.Close() // it may find a call pending
		})
	}
	all.Wait()
	for _, r := range both {
		_ = r.close()
	}
}

// TestUnstageBehind has a rank give back the memory of a call when its peer, on the same device, waits for the rank's next operation. The
// device's memory is not freed then, and the rank's next call has it.
func TestUnstageBehind(t *testing.T) {
	t.Parallel()
	both := ranksOn(t, simulated(t, 1).Driver())
	sums(t, both, 100)
	r := both[0]
	b, err := r.backend()
	require.NoError(t, err)
	sum := func(r *rank) *pg.Work {
		return r.g.AllReduceAsync(r.ctx, r.tensor(0, colligo.Float32, 0, 100), colligo.Sum)
	}
	waits := sum(both[1])
	var first colligo.Tensor
	for i, values := range [][]byte{{1, 2, 3, 4}, {5, 6}} {
		x, err := b.Stage(r.ctx, values, colligo.Uint8)
		require.NoError(t, err)
		if i == 0 {
			first = x
		}
		require.Equal(t, first.Addr(), x.Addr())
		got := make([]byte, len(values))
		require.NoError(t, b.Unstage(r.ctx, x, got))
		require.Equal(t, values, got)
	}
	require.False(t, waits.IsCompleted())
	require.NoError(t, sum(r).Synchronize(r.ctx))
	require.NoError(t, waits.Synchronize(r.ctx))
	for _, r := range both {
		require.NoError(t, r.close())
	}
}

// TestStreamsBeside begins asynchronous operations. No stream is made for them where ranks share a device, for another rank may be waiting
// there by then.
func TestStreamsBeside(t *testing.T) {
	t.Parallel()
	d := *simulated(t, 1).Driver()
	var made atomic.Int64
	create := d.StreamCreateWithPriority
	d.StreamCreateWithPriority = func(f cuda.StreamFlags, priority int) (cuda.Stream, cuda.Result) {
		made.Add(1)
		return create(f, priority)
	}
	both := ranksOn(t, &d)
	sums(t, both, 100)
	before := made.Load()
	works := make([]*pg.Work, 0, 4)
	for i, r := range both {
		x, y := r.tensor(0, colligo.Float32, 0, 10), r.tensor(1, colligo.Float32, 0, 10)
		works = append(works, r.g.AllReduceAsync(r.ctx, x, colligo.Sum))
		if i == 0 {
			works = append(works, r.g.SendAsync(r.ctx, y, 1, 0))
		} else {
			works = append(works, r.g.RecvAsync(r.ctx, y, 0, 0))
		}
	}
	for _, w := range works {
		require.NoError(t, w.Synchronize(context.Background()))
	}
	require.Equal(t, before, made.Load())
	for _, r := range both {
		require.NoError(t, r.g.Close())
	}
	for _, r := range both {
		require.NoError(t, r.close())
	}
}
