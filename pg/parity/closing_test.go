package parity

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// timed turns the measuring of durations on. Durations are above 0 only in real time.
var timed = options{noSim: true, config: func(_ int, c *pg.Config) { c.Recorder.Timing = pg.On }}

// TestOnCompletionHookMixedOps starts operations that nobody waits for. Close does, as a hook is to hear of them.
func TestOnCompletionHookMixedOps(t *testing.T) {
	eachWith(t, 2, timed, func(r *rank) {
		var mu sync.Mutex
		var durations []time.Duration
		r.OnCompletion(func(i pg.WorkInfo) {
			mu.Lock()
			defer mu.Unlock()
			durations = append(durations, i.Active)
		})
		x := full(r, 6, float32(1))
		list := []colligo.Tensor{full(r, 6, float32(-1)), full(r, 6, float32(-1))}
		r.AllReduceAsync(r.ctx, x, colligo.Sum)
		r.AllGatherAsync(r.ctx, list, x)
		r.AllReduceAsync(r.ctx, x, colligo.Sum)
		require.NoError(r.t, r.Close())
		mu.Lock()
		defer mu.Unlock()
		require.Len(r.t, durations, 3)
		for _, d := range durations {
			require.Positive(r.t, d)
		}
		require.Equal(r.t, repeat(6, float32(4)), values[float32](r, x))
		for _, part := range list {
			require.Equal(r.t, repeat(6, float32(2)), values[float32](r, part))
		}
	})
}

// TestCloseWaitsForHooks has a peer come much later than Close waits where no hook hears of operations.
func TestCloseWaitsForHooks(t *testing.T) {
	beside(t)
	eachWith(t, 2, options{waits: true}, func(r *rank) {
		r.summed()
		var mu sync.Mutex
		heard := 0
		r.OnCompletion(func(i pg.WorkInfo) {
			mu.Lock()
			defer mu.Unlock()
			if heard++; i.Err != nil {
				r.t.Error(i.Err)
			}
		})
		if r.Rank() == 1 {
			time.Sleep(2 * time.Second)
		}
		x := full(r, 100, float32(1))
		r.AllReduceAsync(r.ctx, x, colligo.Sum)
		require.NoError(r.t, r.Close())
		mu.Lock()
		defer mu.Unlock()
		require.Equal(r.t, 1, heard)
		require.Equal(r.t, repeat(100, float32(2)), values[float32](r, x))
	})
}

// TestCloseLetsPendingEnd closes groups under operations whose peer is on its way. On a machine that is too slow for it, Close
// says which it has not let end.
func TestCloseLetsPendingEnd(t *testing.T) {
	each(t, 2, func(r *rank) {
		r.summed()
		x := full(r, 100, float32(1))
		if r.Rank() == 1 {
			time.Sleep(200 * time.Millisecond)
		}
		var works []*pg.Work
		for range 3 {
			works = append(works, r.AllReduceAsync(r.ctx, x, colligo.Sum))
		}
		if r.letsEnd(works...) {
			require.Equal(r.t, repeat(100, float32(8)), values[float32](r, x))
		}
	})
}

// letsEnd closes the group under all-reduces that all ranks call, and reports whether Close has let them end. In virtual time it has. On
// a machine that is too slow for it, Close says which it has not let end.
func (r *rank) letsEnd(works ...*pg.Work) bool {
	began := time.Now()
	err := r.Close()
	if errors.Is(err, colligo.ErrClosed) {
		require.GreaterOrEqual(r.t, time.Since(began), time.Second)
	}
	ok := true
	for _, w := range works {
		switch ok = ok && w.IsSuccess(); {
		case w.IsSuccess():
		case err == nil: // the group had failed before
			require.ErrorIs(r.t, w.Err(), colligo.ErrPeerLost)
		default:
			require.ErrorContains(r.t, err, named("all_reduce", int(w.Seq())))
		}
	}
	if ok {
		require.NoError(r.t, err)
	}
	virtual := r.gpu == nil && r.Transport() == "sim"
	require.True(r.t, ok || !virtual)
	return ok
}

// TestCloseNamesPending closes a group under operations that its peer never calls. Blocking calls on a device are pending, too.
func TestCloseNamesPending(t *testing.T) {
	beside(t)
	eachWith(t, 2, options{noNCCL: true, waits: true}, func(r *rank) {
		r.summed()
		number := len(recent(r.Dump(everything)))
		if r.Rank() == 0 {
			require.NoError(r.t, r.Store().Wait(r.ctx, "closed"))
			require.NoError(r.t, r.Close())
			return
		}
		x, y := full(r, 100, float32(1)), full(r, 1, float32(0))
		want := []string{named("all_reduce", number+1)}
		works := []*pg.Work{r.AllReduceAsync(r.ctx, x, colligo.Sum)}
		if r.gpu != nil {
			require.NoError(r.t, r.Broadcast(r.ctx, x, 0))
			want = append(want, named("broadcast", number+2))
		}
		works = append(works, r.RecvAsync(r.ctx, y, 0, 1))
		want = append(want, "recv #1")
		r.closesNaming(works, want)
	})
}

// closesNaming closes the group of rank 1 in the midst of operations that rank 0 does not call. Close names them, and their works end.
func (r *rank) closesNaming(works []*pg.Work, want []string) {
	began := time.Now()
	err := r.Close()
	require.Less(r.t, time.Since(began), time.Minute/2)
	require.ErrorIs(r.t, err, colligo.ErrClosed)
	require.ErrorContains(r.t, err, "rank 1 had pending operations, which have failed: ")
	for _, name := range want {
		require.ErrorContains(r.t, err, name)
	}
	for _, w := range works {
		require.ErrorIs(r.t, w.Err(), colligo.ErrClosed)
	}
	require.NoError(r.t, r.Store().Set(r.t.Context(), "closed", nil))
}

// TestCloseTellsOfTimeout has a hook hear of an operation that comes to its limit while Close waits. Close tells it, too.
func TestCloseTellsOfTimeout(t *testing.T) {
	beside(t)
	o := options{waits: true, config: func(rank int, c *pg.Config) {
		if rank == 1 {
			c.Timeout = lateLimit
		}
	}}
	eachWith(t, 2, o, func(r *rank) {
		r.summed()
		if r.Rank() == 0 {
			<-r.failed()
			return
		}
		heard := make(chan error, 1)
		r.OnCompletion(func(i pg.WorkInfo) { heard <- i.Err })
		r.AllReduceAsync(r.ctx, full(r, 100, float32(1)), colligo.Sum)
		err := r.Close()
		require.ErrorIs(r.t, err, colligo.ErrTimeout)
		require.ErrorContains(r.t, err, "which have failed: all_reduce #")
		require.ErrorIs(r.t, <-heard, colligo.ErrTimeout)
	})
}
