package peer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/pg"
)

// waitedOut is the timeout of operations in tests that wait it out. The operations before take a small part of it, with
// the race detector and on a busy machine as well.
const waitedOut = 8 * time.Second

// TestMissingRank leaves one rank out of a collective: the others' devices stop waiting, and the error names it.
func TestMissingRank(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{LL, Tiles, CopyRing, Fused} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			o, n := taking(t, algorithm, 3, 50_000)
			o.Timeout = waitedOut
			onRanks(t, abortable(t, 3).Driver(), 3, 3, simHalf, o, func(r *rank) error { return r.missing(n) })
		})
	}
}

// missing is a rank of a group in which rank 1 leaves the second sum out.
func (r *rank) missing(n int) error {
	x := r.tensor(0, colligo.Float32, 0, n)
	if err := first(r.put(x, make([]byte, x.Size())), func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) }); err != nil {
		return err
	}
	if r.g.Rank() == 1 {
		return r.failed("it waits for rank")
	}
	err := r.g.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(context.Background())
	if !errors.Is(err, colligo.ErrTimeout) {
		return errors.Join(errors.New("no timeout"), err)
	}
	return contains(err, "it waits for rank 1")
}

// failed waits for the group's failure, of which this rank hears sooner or later, and looks for words in it.
func (r *rank) failed(words ...string) error {
	for end := time.Now().Add(time.Minute); r.g.Err() == nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return contains(r.g.Err(), words...)
}

func contains(err error, words ...string) error {
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			return fmt.Errorf("the error should have %q in it: %w", w, err)
		}
	}
	return nil
}

// TestOtherOptions opens the ranks of a group with different options.
func TestOtherOptions(t *testing.T) {
	t.Parallel()
	sim := simulated(t, 2)
	errs := make(chan error, 2)
	onRanks(t, sim.Driver(), 2, 2, simHalf, Options{}, func(r *rank) error {
		o := Options{Driver: sim.Driver(), Memory: (32 + 16*r.g.Rank()) << 20}
		x := r.tensor(0, colligo.Float32, 0, 10)
		errs <- r.g.AllReduce(With(r.ctx, o), x, colligo.Sum)
		return nil
	})
	for range 2 {
		require.ErrorContains(t, <-errs, "other options")
	}
}

// manyPending is more operations than an error of Close names. Every device takes as many before it is full.
const manyPending = 6

// full has a goroutine enqueue as much as the device takes, and waits until it comes no further. A goroutine that a busy machine
// holds up before it has enqueued many operations has not come to a full device. The goroutine ends with the group.
func (r *rank) full(x colligo.Tensor) (ended <-chan struct{}) {
	var n atomic.Int64
	over := make(chan struct{})
	go func() {
		defer close(over)
		for r.g.Err() == nil {
			r.g.AllReduceAsync(r.ctx, x, colligo.Sum)
			n.Add(1)
		}
	}()
	for before := int64(-1); r.g.Err() == nil && before < max(n.Load(), manyPending); {
		before = n.Load()
		time.Sleep(300 * time.Millisecond)
	}
	return over
}

// soon fails if f does not return.
func soon(what string, f func() error) error {
	err := make(chan error, 1)
	go func() { err <- f() }()
	select {
	case err := <-err:
		return err
	case <-time.After(time.Minute):
		return errors.New(what + " does not return")
	}
}

// onFull runs f on rank 0, whose device is full of operations in which rank 1 takes no part, by kernels, rings and staging.
func onFull(t *testing.T, f func(r *rank, x colligo.Tensor) error) {
	t.Helper()
	for name, o := range map[string]Options{"ll": small(LL), "copy-ring": small(CopyRing), "staged": {Memory: 24 << 10, Staged: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			onStaged(t, 2, crew{devices: 2, driver: one(abortable(t, 2).Driver()), options: same(o)}, func(r *rank) error {
				x, err := r.begun()
				if err != nil || r.g.Rank() == 1 {
					<-over
					return err
				}
				defer close(over)
				return f(r, x)
			})
		})
	}
}

// TestClosedWhileFull closes a group while a goroutine enqueues more than the device takes. Close says what was not done.
func TestClosedWhileFull(t *testing.T) {
	t.Parallel()
	onFull(t, func(r *rank, x colligo.Tensor) error {
		ended := r.full(x)
		err := soon("Close", r.g.Close)
		if !errors.Is(err, colligo.ErrClosed) {
			return fmt.Errorf("Close returned %w", err)
		}
		<-ended
		return contains(err, "rank 0 had pending operations, which have failed: all_reduce #2, all_reduce #3, ", " more: group closed")
	})
}

// TestAskedWhileFull asks for an operation, and waits for it, while another goroutine cannot enqueue more.
func TestAskedWhileFull(t *testing.T) {
	t.Parallel()
	onFull(t, func(r *rank, x colligo.Tensor) error {
		r.g.SetTiming(true)
		w := r.g.AllReduceAsync(r.ctx, x, colligo.Sum)
		ended := r.full(x)
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		err := first(soon("IsCompleted", func() error {
			if w.IsCompleted() {
				return errors.New("it is over")
			}
			return nil
		}), func() error {
			return soon("Synchronize", func() error {
				if err := w.Synchronize(ctx); !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("not the context's end: %w", err)
				}
				return nil
			})
		}, func() error { return soon("Wait", func() error { return w.Wait(OnStream(ctx, 0)) }) })
		r.g.Abort(errors.New("seen enough"))
		<-ended
		return err
	})
}

// TestClosedWhileRead closes a group while somebody looks into a tensor: the memory through which he does stays.
func TestClosedWhileRead(t *testing.T) {
	t.Parallel()
	onSim(t, 1, small(LL), func(r *rank) error {
		x := r.tensor(0, colligo.Float32, 0, 1000)
		b, err := pg.BackendOf(r.ctx, r.g, r.device.Place())
		if err != nil {
			return err
		}
		closed := make(chan error, 1)
		early := false
		err = first(r.put(x, make([]byte, x.Size())), func() error {
			return b.(*backend).Read(r.ctx, x, func([]byte) bool {
				go func() { closed <- r.g.Close() }()
				select {
				case err := <-closed:
					early = true
					closed <- err
				case <-time.After(500 * time.Millisecond):
				}
				return true
			})
		})
		if early {
			err = errors.New("the group was closed under a reader")
		}
		return first(err, func() error { return <-closed })
	})
}

// TestClosedWithoutContext closes a rank whose device cannot be entered any more. The other rank of the process gives back
// all that it has on its own device, and no goroutine is left.
func TestClosedWithoutContext(t *testing.T) {
	for name, o := range map[string]Options{"ll": small(LL), "staged": {Memory: 24 << 10, Staged: true}} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			sim := machine(t, 2)
			var lost atomic.Bool
			d := *sim.Driver()
			d.CtxGetCurrent = func() (cuda.Context, cuda.Result) {
				if lost.Load() {
					return 0, cuda.InvalidContext
				}
				return sim.Driver().CtxGetCurrent()
			}
			errs := make(chan error, 2)
			groups := formed(t, "sim", 2, &said{})
			for i, g := range groups {
				go func() {
					r, err := newRank(t.Context(), g, &d, i, simHalf, o)
					if err == nil {
						_, err = r.begun()
					}
					errs <- err
				}()
			}
			require.NoError(t, errors.Join(<-errs, <-errs))
			lost.Store(true)
			require.ErrorIs(t, groups[0].Close(), cuda.InvalidContext)
			lost.Store(false)
			_ = groups[1].Close() // its watchdog may have met the same
			for _, l := range sim.Leaks() {
				require.NotRegexp(t, "device 1: (module|event|graph)", l)
			}
			sim.Close()
			for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			require.LessOrEqual(t, runtime.NumGoroutine(), before)
		})
	}
}

// TestFailedLate has a ring come to its waits long after the group has failed, behind work of the program on its stream. The
// group is still open then, or is being closed.
func TestFailedLate(t *testing.T) {
	t.Parallel()
	for _, closing := range []bool{false, true} {
		t.Run(fmt.Sprintf("closing=%v", closing), func(t *testing.T) {
			t.Parallel()
			sim := kerneled(t, cudasim.Config{Devices: 2, Seed: *seed, Patience: time.Minute})
			over := make(chan struct{})
			onRanks(t, sim.Driver(), 2, 2, simHalf, small(CopyRing), func(r *rank) error {
				if _, err := r.begun(); err != nil || r.g.Rank() == 1 {
					<-over
					return err
				}
				defer close(over)
				return r.failedLate(closing)
			})
			sim.Drain()
			require.Empty(t, sim.Faults())
			require.Empty(t, sim.Leaks())
			sim.Close()
		})
	}
}

func (r *rank) failedLate(closing bool) error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	word := (*uint32)(unsafe.Pointer(&r.host.Bytes[0]))
	atomic.StoreUint32(word, 0)
	x := r.tensor(0, colligo.Float32, 0, 100_000)
	err = first(t.Wait32(r.stream, r.host.Device, 1), func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) })
	r.g.Abort(errors.New("out of luck"))
	time.AfterFunc(streamorder.Patience+2*time.Second, func() { atomic.StoreUint32(word, 1) })
	if closing {
		time.Sleep(streamorder.Patience + time.Second)
		err = first(err, r.g.Close)
	}
	return first(err, func() error {
		return soon("the stream", func() error {
			t, err := r.device.Enter()
			if err != nil {
				return err
			}
			defer t.Leave()
			for done := false; !done && err == nil; time.Sleep(time.Millisecond) {
				done, err = t.StreamDone(r.stream)
			}
			return err
		})
	})
}
