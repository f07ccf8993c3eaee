package parity

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

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

// TestOnCompletionHookWithDDP hears of one all-reduce for each bucket, and of what the reducer arranges besides.
func TestOnCompletionHookWithDDP(t *testing.T) {
	each(t, 2, func(r *rank) {
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
