package parity

import (
	"context"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/journal"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// TestNCCLErrorsNonblocking starts an operation that a rank never calls: nothing holds its caller, and the work is pending
// until the group is closed.
func TestNCCLErrorsNonblocking(t *testing.T) {
	each(t, 3, func(r *rank) {
		r.summed()
		if r.Rank() == 0 {
			r.hearAll()
			w := r.AllReduceAsync(r.ctx, full(r, 10, float32(1)), colligo.Sum)
			require.NoError(r.t, w.Err())
			require.False(r.t, w.IsCompleted())
			r.Abort(nil)
			require.Error(r.t, w.Synchronize(r.ctx))
			return
		}
		r.tell()
		<-r.failed()
	})
}

// TestNCCLBlockingWaitWithBarrier has a barrier that others do not come to end in time.
func TestNCCLBlockingWaitWithBarrier(t *testing.T) {
	beside(t)
	blocking := func(_ int, c *pg.Config) { c.Watchdog.BlockingWait = pg.On }
	eachWith(t, 3, options{waits: true, config: blocking}, func(r *rank) {
		require.NoError(r.t, r.Barrier(r.ctx))
		r.meet("through")
		if r.Rank() != 0 {
			<-r.failed()
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, 300*time.Millisecond)
		defer cancel()
		err := r.BarrierAsync(ctx).Wait(r.ctx)
		require.ErrorIs(r.t, err, colligo.ErrTimeout)
		require.Regexp(r.t, `: (ranks 1-2 (have not entered|do not answer)|rank 1 has not entered after \d+ms; rank 2 does not answer|`+
			`rank 2 has not entered after \d+ms; rank 1 does not answer) after \d+ms; rank 0 waits`, err.Error()) // one may be held up when asked
	})
}

// TestNCCLTimeout has the work of an operation that others do not call time out while it is waited for.
func TestNCCLTimeout(t *testing.T) {
	beside(t)
	blocking := func(_ int, c *pg.Config) { c.Watchdog.BlockingWait = pg.On }
	eachWith(t, 3, options{waits: true, config: blocking}, func(r *rank) {
		r.waited(r.AllReduceAsync(r.ctx, full(r, 10, float32(1)), colligo.Sum))
		r.meet("reduced")
		if r.Rank() != 0 {
			<-r.failed()
			return
		}
		require.NoError(r.t, r.SetTimeout(300*time.Millisecond))
		began := time.Now()
		err := r.AllReduceAsync(r.ctx, full(r, 10, float32(1)), colligo.Sum).Wait(r.ctx)
		require.ErrorIs(r.t, err, colligo.ErrTimeout)
		require.Less(r.t, time.Since(began), 30*time.Second)
	})
}

// TestManyCallsTimeOut has rank 0 call operations that rank 1 does not, one after the other. A device takes some hundreds of them. The call
// after those waits for room, with no operation before it that the host waits for, and hears of the timeout, too.
func TestManyCallsTimeOut(t *testing.T) {
	beside(t)
	eachWith(t, 2, options{waits: true}, func(r *rank) {
		r.summed()
		r.meet("summed")
		if r.Rank() == 1 {
			<-r.failed()
			require.ErrorIs(r.t, r.Err(), colligo.ErrTimeout)
			return
		}
		require.NoError(r.t, r.SetTimeout(time.Second))
		x := full(r, 10, float32(1))
		var err error
		for n := 0; err == nil && n < 2000; n++ {
			err = r.AllReduce(r.ctx, x, colligo.Sum)
		}
		require.ErrorIs(r.t, err, colligo.ErrTimeout)
		require.ErrorContains(r.t, err, "rank 1")
	})
}

// TestInvalidNCCLBlockingWaitEnv refuses what is no truth value, and names variable and value.
func TestInvalidNCCLBlockingWaitEnv(t *testing.T) {
	runs(t, byItself)
	for _, name := range []string{"TORCH_NCCL_BLOCKING_WAIT", "COLLIGO_BLOCKING_WAIT"} {
		for _, value := range []string{"abc", "-1", "2147483647", "4294967295"} {
			t.Run(name+"="+value, func(t *testing.T) {
				t.Setenv(name, value)
				_, err := pg.Init(t.Context(), pg.Config{Store: store.NewHash(), Rank: 0, Size: 1})
				require.ErrorContains(t, err, name)
				require.ErrorContains(t, err, value)
			})
		}
	}
}

// TestSaysForWhatItWaits has rank 0 wait for rank 1, which joins a collective late, or sends late. Rank 0 says so after 4 seconds, once on
// each medium, and again after 8.
func TestSaysForWhatItWaits(t *testing.T) {
	beside(t)
	for _, c := range []struct{ name, said string }{
		{"collective", `op=all_reduce seq=2 cause="rank 1 (has not entered after [4-7]s; rank 0 waits; rank 1 has nothing pending, last completed #1|` +
			`does not answer after [4-7]s; rank 0 waits)"`}, // it may be held up when it is asked
		{"message", `op=recv cause="nothing from rank 1 with tag 0 after [4-7]s; rank 1 (has nothing pending, last completed #1|does not answer)"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			beside(t)
			var log journal.Journal
			var media atomic.Int32
			t.Cleanup(func() {
				said := regexp.MustCompile(c.said).FindAllString(log.String(), -1) // a busy machine comes to it late
				assert.Len(t, said, int(media.Load()), log.String())
			})
			o := options{waits: true, config: func(_ int, c *pg.Config) { c.Log = log.Log() }}
			eachWith(t, 2, o, func(r *rank) {
				x := full(r, 10, float32(1))
				r.summed()
				call := func() error { return r.AllReduce(r.ctx, x, colligo.Sum) }
				if c.name == "message" {
					call = func() error { return r.Recv(r.ctx, x, 1, 0) }
					if r.Rank() == 1 {
						call = func() error { return r.Send(r.ctx, x, 0, 0) }
					}
					require.NoError(r.t, call()) // which links the two
				}
				if r.Rank() == 0 {
					media.Add(1)
				} else {
					time.Sleep(10 * time.Second)
				}
				require.NoError(r.t, call())
				if r.Rank() == 0 && r.gpu != nil {
					time.Sleep(10 * time.Second) // the simulator lets no call wait for so long
				}
				r.summed()
			})
		})
	}
}
