package parity

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// blockingWait has Work.Wait hold its caller.
var blockingWait = options{waits: true, config: func(_ int, c *pg.Config) { c.Watchdog.BlockingWait = pg.On }}

// TestBlockingWaitWithDeadline gives a limit to a wait for operations that others do not call: the group ends, as after a timeout
// of the operation. So it does for a message and for a block.
func TestBlockingWaitWithDeadline(t *testing.T) {
	beside(t)
	for name, start := range map[string]func(r *rank, x colligo.Tensor) *pg.Work{
		"all_reduce": func(r *rank, x colligo.Tensor) *pg.Work { return r.AllReduceAsync(r.ctx, x, colligo.Sum) },
		"recv":       func(r *rank, x colligo.Tensor) *pg.Work { return r.RecvAsync(r.ctx, x, 1, 0) },
		"block": func(r *rank, x colligo.Tensor) *pg.Work {
			return r.AllReduceCoalescedAsync(r.ctx, []colligo.Tensor{x, full(r, 20, float32(1))}, colligo.Sum)
		},
	} {
		t.Run(name, func(t *testing.T) {
			beside(t)
			o := blockingWait
			o.noNCCL = name == "recv"
			eachWith(t, 2, o, func(r *rank) {
				r.summed()
				r.meet("summed")
				if r.Rank() == 1 {
					<-r.failed()
					return
				}
				w := start(r, full(r, 10, float32(1)))
				ctx, cancel := context.WithTimeout(r.ctx, 300*time.Millisecond)
				defer cancel()
				err := w.Wait(ctx)
				require.ErrorIs(r.t, err, colligo.ErrTimeout)
				require.ErrorIs(r.t, r.Err(), colligo.ErrTimeout)
			})
		})
	}
}

// TestWaitWithDeadline gives up a wait that holds its caller anyway. The operation goes on.
func TestWaitWithDeadline(t *testing.T) {
	each(t, 2, func(r *rank) {
		r.summed()
		x := full(r, 10, float32(1))
		if r.Rank() == 1 {
			require.NoError(r.t, r.Store().Wait(r.t.Context(), "given up"))
		}
		w := r.AllReduceAsync(r.ctx, x, colligo.Sum)
		if r.Rank() == 0 {
			ctx, cancel := context.WithTimeout(r.ctx, 100*time.Millisecond)
			defer cancel()
			require.ErrorIs(r.t, w.Synchronize(ctx), context.DeadlineExceeded)
			require.NoError(r.t, r.Store().Set(r.t.Context(), "given up", nil))
		}
		r.waited(w)
		require.Equal(r.t, repeat(10, float32(2)), values[float32](r, x))
	})
}

// TestWorkIsStarted asks works whose turn has come, and a work behind them.
func TestWorkIsStarted(t *testing.T) {
	each(t, 2, func(r *rank) {
		r.SetTiming(true)
		r.summed()
		x := full(r, 10, float32(1))
		if r.Rank() == 1 {
			require.NoError(r.t, r.Store().Wait(r.t.Context(), "seen"))
		}
		w := r.AllReduceAsync(r.ctx, x, colligo.Sum)
		behind := r.AllReduceAsync(r.ctx, x, colligo.Sum)
		if r.Rank() == 0 {
			for !w.IsStarted() {
				time.Sleep(time.Millisecond)
			}
			require.False(r.t, w.IsCompleted())
			require.False(r.t, behind.IsStarted())
			require.NoError(r.t, r.Store().Set(r.t.Context(), "seen", nil))
		}
		r.waited(behind)
		require.True(r.t, w.IsStarted())
		require.True(r.t, behind.IsStarted())
		behind.Abort()
		require.NoError(r.t, r.Err(), "a work that is over is not aborted")
		r.summed()
	})
}

// TestWorkAbort ends an operation that the peer does not call, and the group with it.
func TestWorkAbort(t *testing.T) {
	each(t, 2, func(r *rank) {
		r.summed()
		if r.Rank() == 1 {
			require.NoError(r.t, r.Store().Set(r.t.Context(), "summed", nil))
		} else {
			require.NoError(r.t, r.Store().Wait(r.t.Context(), "summed")) // an abort overtakes the peer's operations
			w := r.AllReduceAsync(r.ctx, full(r, 10, float32(1)), colligo.Sum)
			require.False(r.t, w.IsCompleted())
			w.Abort()
			require.ErrorIs(r.t, w.Synchronize(r.ctx), pg.ErrAborted)
		}
		<-r.failed()
		require.ErrorIs(r.t, r.Err(), pg.ErrAborted)
		require.ErrorContains(r.t, r.Err(), "all_reduce 2 of group 0 was aborted")
	})
}

// TestBarrierOnAsync has the work of a barrier be done when a rank that comes late has.
func TestBarrierOnAsync(t *testing.T) {
	each(t, 2, func(r *rank) {
		var on []colligo.Device
		if r.gpu != nil {
			on = append(on, r.gpu.Place())
		}
		r.summed()
		x := full(r, 10, float32(1))
		if r.Rank() == 1 {
			require.NoError(r.t, r.Store().Wait(r.t.Context(), "asked"))
			require.NoError(r.t, r.AllReduce(r.ctx, x, colligo.Sum))
			r.waited(pg.BarrierOnAsync(r.ctx, r.Group, on...))
		} else {
			r.AllReduceAsync(r.ctx, x, colligo.Sum)
			w := pg.BarrierOnAsync(r.ctx, r.Group, on...)
			time.Sleep(50 * time.Millisecond)
			require.False(r.t, w.IsCompleted())
			require.NoError(r.t, r.Store().Set(r.t.Context(), "asked", nil))
			r.waited(w)
			require.True(r.t, w.IsSuccess())
		}
		require.Equal(r.t, repeat(10, float32(2)), values[float32](r, x))
		require.NoError(r.t, r.Barrier(r.ctx))
		err := pg.BarrierOnAsync(r.ctx, r.Group, colligo.Device{Kind: colligo.CUDA}, colligo.Device{Kind: colligo.CUDA, Index: 1}).Wait(r.ctx)
		require.ErrorContains(r.t, err, "a barrier on 2 devices, a rank has one")
		require.NoError(r.t, r.Err())
	})
}

// TestSequenceOf counts the collectives of each group by itself.
func TestSequenceOf(t *testing.T) {
	each(t, 2, func(r *rank) {
		require.Zero(r.t, pg.SequenceOf(r.Group))
		r.summed()
		require.Equal(r.t, uint64(1), pg.SequenceOf(r.Group))
		a, b := r.pair()
		defer a.leave()
		defer b.leave()
		a.summed()
		a.summed()
		if r.Rank() == 0 {
			require.NoError(r.t, a.Send(r.ctx, full(r, 1, float32(0)), 1, 0))
		} else {
			require.NoError(r.t, a.Recv(r.ctx, full(r, 1, float32(0)), 0, 0))
		}
		require.Equal(r.t, []uint64{1, 2, 0}, []uint64{pg.SequenceOf(r.Group), pg.SequenceOf(a.Group), pg.SequenceOf(b.Group)})
		require.Zero(r.t, pg.SequenceOf(nil))
		require.Equal(r.t, pg.DebugOff, pg.DebugLevelOf(r.Group))
	})
}

// TestTimeoutOnDevices records the limit of an operation on a device, which is another than on the CPU.
func TestTimeoutOnDevices(t *testing.T) {
	each(t, 2, func(r *rank) {
		want := pg.DefaultTimeout
		if r.gpu != nil {
			want = pg.DefaultDeviceTimeout
		}
		r.summed()
		require.NoError(r.t, r.SetTimeout(time.Minute))
		r.summed()
		es := recent(r.Dump(everything))
		require.Equal(r.t, want, es[0].Timeout)
		require.Equal(r.t, time.Minute, es[1].Timeout)
	})
}
