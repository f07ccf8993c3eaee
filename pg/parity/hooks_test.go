package parity

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
)

// hear sets a completion hook. The function that it returns waits until nothing is pending and says what the hook heard.
func (r *rank) hear() func() []pg.WorkInfo {
	var mu sync.Mutex
	var heard []pg.WorkInfo
	r.OnCompletion(func(i pg.WorkInfo) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, i)
	})
	return func() []pg.WorkInfo {
		require.NoError(r.t, r.WaitPending(r.ctx))
		mu.Lock()
		defer mu.Unlock()
		return heard
	}
}

// measured expects the duration of an operation, which ranks on devices have with timing alone.
func (r *rank) measured(timing bool, o pg.WorkInfo) {
	require.Equal(r.t, timing || r.gpu == nil, o.Active >= 0, "%v took %v", o.Op, o.Active)
}

// TestOnCompletionHookBroadcast hears of two operations with their times.
func TestOnCompletionHookBroadcast(t *testing.T) {
	timings(t, 2, options{}, func(r *rank, timing bool) {
		heard := r.hear()
		x := full(r, 6, float32(r.Rank()))
		for range 2 {
			r.waited(r.BroadcastAsync(r.ctx, x, 0))
		}
		ops := heard()
		require.Len(r.t, ops, 2)
		for i, o := range ops {
			require.Equal(r.t, pg.OpBroadcast, o.Op)
			require.Equal(r.t, uint64(i+1), o.Seq)
			require.NoError(r.t, o.Err)
			r.measured(timing, o)
		}
		require.Equal(r.t, repeat(6, float32(0)), values[float32](r, x))
	})
}

// TestWaitPendingMixedOps starts operations and waits for them by WaitPending alone.
func TestWaitPendingMixedOps(t *testing.T) {
	timings(t, 2, options{}, func(r *rank, timing bool) {
		heard := r.hear()
		x := full(r, 6, float32(1))
		all := []colligo.Tensor{full(r, 6, float32(0)), full(r, 6, float32(0))}
		r.AllReduceAsync(r.ctx, x, colligo.Sum)
		r.AllGatherAsync(r.ctx, all, x)
		r.AllReduceAsync(r.ctx, x, colligo.Sum)
		ops := heard()
		require.Len(r.t, ops, 3)
		for i, op := range []pg.OpType{pg.OpAllReduce, pg.OpAllGather, pg.OpAllReduce} {
			require.Equal(r.t, op, ops[i].Op)
			r.measured(timing, ops[i])
		}
		require.NoError(r.t, r.AllReduceAsync(r.ctx, full(r, 1, float32(1)), colligo.Sum).Wait(r.ctx)) // so that the rank's stream waits
		require.Equal(r.t, repeat(6, float32(4)), values[float32](r, x))
		for _, y := range all {
			require.Equal(r.t, repeat(6, float32(2)), values[float32](r, y))
		}
	})
}

// TestOnCompletionHookSeq counts on.
func TestOnCompletionHookSeq(t *testing.T) {
	timings(t, 2, options{}, func(r *rank, _ bool) {
		heard := r.hear()
		for range 3 {
			r.waited(r.BroadcastAsync(r.ctx, full(r, 6, float32(1)), 0))
		}
		for i, o := range heard() {
			require.Equal(r.t, uint64(i+1), o.Seq)
		}
		require.Len(r.t, heard(), 3)
	})
}

// TestOnCompletionHookWithDDP hears of one all-reduce for each bucket, and of what the reducer arranges besides.
func TestOnCompletionHookWithDDP(t *testing.T) {
	timings(t, 2, options{}, func(r *rank, _ bool) {
		m := r.train(ddp.Options{}, layers...)
		m.backward() // the first step is followed by a broadcast of the order
		require.NoError(r.t, r.WaitPending(r.ctx))
		heard := r.hear()
		for range 3 {
			m.zero()
			m.backward()
		}
		ops := heard()
		require.Len(r.t, ops, 3*len(m.Buckets()))
		for _, o := range ops {
			require.Equal(r.t, pg.OpAllReduce, o.Op)
			require.NoError(r.t, o.Err)
			require.False(r.t, o.Finished.Before(o.Started))
		}
		m.holds(mean)
	})
}
