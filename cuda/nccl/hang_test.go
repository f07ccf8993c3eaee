package nccl_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/pg"
)

// forming is the ConnectTimeout of groups whose communicators hang, and the limit of calls that hang. Other calls take a small part of it,
// on a busy machine as well.
const forming = 8 * time.Second

// held runs f on two ranks, of which calls hang, and returns the errors of the ranks. All come within two minutes.
func held(t *testing.T, o nccl.Options, f func(r *rank, sim *ncclsim.Sim) error) []error {
	t.Helper()
	devices := cudasim.New(cudasim.Config{Devices: 2, Patience: simPatience})
	cudasim.Limit(t, devices)
	library := ncclsim.New(devices.Driver(), ncclsim.Version)
	groups, err := pg.InProcess(t.Context(), 2, pg.Config{Backends: "cpu:host,cuda:nccl", Timeout: time.Minute, ConnectTimeout: forming})
	require.NoError(t, err)
	errs, done := make([]error, 2), make(chan struct{})
	var all sync.WaitGroup
	for i, g := range groups {
		all.Go(func() {
			errs[i] = life(t.Context(), g, devices.Driver(), library, i, o, func(r *rank) error { return f(r, library) })
		})
	}
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("a rank hangs with a call of the library")
	}
	require.NoError(t, library.Close())
	devices.Close()
	return errs
}

func (r *rank) sum() error {
	x, err := r.moved(r.numbered(colligo.Int64, 5))
	if err != nil {
		return err
	}
	return r.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(r.ctx)
}

// bothWays calls f with options of communicators whose calls return when they are through, and of others that do not block. Making one
// is the given function of the library.
func bothWays(t *testing.T, f func(t *testing.T, o nccl.Options, making string)) {
	t.Parallel() // it waits more than it works
	t.Run("blocking", func(t *testing.T) {
		t.Parallel()
		f(t, nccl.Options{}, "ncclCommInitRank")
	})
	t.Run("not blocking", func(t *testing.T) {
		t.Parallel()
		f(t, nccl.Options{Config: nccl.Config{NonBlocking: true}}, "ncclCommInitRankConfig")
	})
}

// aborts waits until the library has aborted a communicator: one that forms too late is aborted in the background.
func aborts(t *testing.T, sim *ncclsim.Sim) {
	require.Eventually(t, func() bool { return slices.Contains(sim.Calls(), "ncclCommAbort") }, time.Minute, time.Millisecond)
}

// TestFormingHangs gives up a communicator that the library does not come to an end with, and one to which a rank does not come.
func TestFormingHangs(t *testing.T) { bothWays(t, formingHangs) }

func formingHangs(t *testing.T, o nccl.Options, making string) {
	t.Run("a call hangs", func(t *testing.T) {
		t.Parallel()
		var once, last sync.Once
		errs := held(t, o, func(r *rank, sim *ncclsim.Sim) error {
			once.Do(func() { sim.Hang(making) })
			err := r.sum()
			last.Do(func() {
				sim.Release() // a call that blocks comes back now
				aborts(t, sim)
			})
			return err
		})
		for _, err := range errs {
			require.ErrorContains(t, err, "the communicator of 2 ranks has not formed after 8s (ConnectTimeout): a rank has not come to it")
		}
	})
	t.Run("a rank is missing", func(t *testing.T) {
		t.Parallel()
		errs := held(t, o, func(r *rank, sim *ncclsim.Sim) error {
			if r.Rank() == 1 {
				for r.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				return r.Err()
			}
			return r.sum()
		})
		require.ErrorIs(t, errs[0], colligo.ErrTimeout)
		require.ErrorContains(t, errs[0], "the communicator of 2 ranks has not formed after 8s (ConnectTimeout)")
		for _, err := range errs {
			require.Regexp(t, `rank 1 has not entered after (8|7\.9\d*)s`, err.Error()) // the wait begins a little after ConnectTimeout does
		}
	})
	t.Run("the group fails", func(t *testing.T) {
		cause := errors.New("the program has had enough")
		errs := held(t, o, func(r *rank, sim *ncclsim.Sim) error {
			if r.Rank() == 1 {
				r.Abort(cause)
				return nil
			}
			return r.sum()
		})
		require.ErrorContains(t, errs[0], "had enough")
		require.NotContains(t, errs[0].Error(), "ConnectTimeout")
	})
}

// TestCallHangs has a collective and a block from which the library does not return, or that it does not launch. The
// operation's limit ends them, on both ranks.
func TestCallHangs(t *testing.T) {
	bothWays(t, func(t *testing.T, o nccl.Options, _ string) {
		o.Timeout = forming
		for _, c := range []struct {
			function string
			call     func(r *rank, x colligo.Tensor) error
		}{
			{ncclsim.Launch, func(r *rank, x colligo.Tensor) error { return r.AllReduce(r.ctx, x, colligo.Sum) }},
			{"ncclGroupEnd", func(r *rank, x colligo.Tensor) error {
				return r.Coalesce(r.ctx, func(b *pg.Batch) error {
					b.Send(x, 1-r.Rank(), 0)
					b.Recv(x, 1-r.Rank(), 0)
					return nil
				})
			}},
		} {
			t.Run(c.function, func(t *testing.T) {
				t.Parallel()
				callHangs(t, o, c.function, c.call)
			})
		}
	})
}

func callHangs(t *testing.T, o nccl.Options, function string, call func(r *rank, x colligo.Tensor) error) {
	var once sync.Once
	errs := held(t, o, func(r *rank, sim *ncclsim.Sim) error {
		if err := r.sum(); err != nil {
			return err
		}
		x, err := r.moved(r.numbered(colligo.Int64, 5))
		if err != nil {
			return err
		}
		once.Do(func() { sim.Hang(function) })
		err = call(r, x)
		for err == nil {
			err = r.sum()
		}
		aborts(t, sim)
		return err
	})
	for _, err := range errs {
		require.Error(t, err)
	}
	says := "the library has not returned to rank"
	if o.Config.NonBlocking { // the call and the watchdog have the same limit, and between two questions no call is in the library
		says += "|nccl: the communicator is in progress: context deadline exceeded|the device of rank [01] is not done after 8s"
	}
	require.Regexp(t, says, errors.Join(errs...).Error())
}

// TestAbortHangs has a library that does not come back from aborting. The ranks end all the same.
func TestAbortHangs(t *testing.T) {
	bothWays(t, func(t *testing.T, o nccl.Options, _ string) {
		o.Timeout = forming
		var once sync.Once
		errs := held(t, o, func(r *rank, sim *ncclsim.Sim) error {
			if err := r.sum(); err != nil {
				return err
			}
			once.Do(func() {
				sim.Hang("ncclCommAbort")
				sim.Break(1, nccl.RemoteError)
			})
			for {
				if err := r.sum(); err != nil {
					aborts(t, sim)
					return err
				}
			}
		})
		for _, err := range errs {
			require.ErrorContains(t, err, "ncclRemoteError")
		}
	})
}

// TestDestroyHangs has a library that does not come back from destroying a communicator. Close tells so.
func TestDestroyHangs(t *testing.T) {
	bothWays(t, func(t *testing.T, o nccl.Options, _ string) {
		o.Timeout = forming
		errs := held(t, o, func(r *rank, sim *ncclsim.Sim) error {
			if err := r.sum(); err != nil {
				return err
			}
			sim.Hang("ncclCommDestroy")
			return nil
		})
		if !o.Config.NonBlocking {
			require.ErrorContains(t, errors.Join(errs...), "ncclCommDestroy has not returned after 8s")
		}
	})
}

// TestPriority has streams of the highest priority by option only.
func TestPriority(t *testing.T) {
	for _, high := range []bool{false, true} {
		t.Run(fmt.Sprint(high), func(t *testing.T) {
			devices := cudasim.New(cudasim.Config{Devices: 1})
			cudasim.Limit(t, devices)
			driver := *devices.Driver()
			var mu sync.Mutex
			var got []int
			driver.StreamCreateWithPriority = func(f cuda.StreamFlags, priority int) (cuda.Stream, cuda.Result) {
				mu.Lock()
				got = append(got, priority)
				mu.Unlock()
				return devices.Driver().StreamCreateWithPriority(f, priority)
			}
			library := ncclsim.New(&driver, ncclsim.Version)
			groups, err := pg.InProcess(t.Context(), 1, pg.Config{Backends: "cpu:host,cuda:nccl", Timeout: time.Minute})
			require.NoError(t, err)
			require.NoError(t, life(t.Context(), groups[0], &driver, library, 0, nccl.Options{HighPriority: high}, (*rank).sum))
			require.NoError(t, library.Close())
			devices.Close()
			slices.Sort(got)
			require.Equal(t, high, got[0] < 0, "%v", got)
		})
	}
}

// TestBlocking makes communicators whose calls return when they are through only, and by option ones whose calls do not.
func TestBlocking(t *testing.T) {
	s := onRanks(t, 2, nccl.Options{}, func(r *rank) error { return r.moves(colligo.Float32) })
	require.Contains(t, s.Calls(), "ncclCommInitRank")
	require.NotContains(t, s.Calls(), "ncclCommInitRankConfig")
	s = onRanks(t, 2, nccl.Options{Config: nccl.Config{NonBlocking: true}}, func(r *rank) error { return r.moves(colligo.Float32) })
	require.Contains(t, s.Calls(), "ncclCommInitRankConfig")
	require.True(t, s.Configs()[0].NonBlocking)
}
