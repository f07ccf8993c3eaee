package pg_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport/sim"
)

// TestOnCompletionHookBroadcast hears of two operations with their times.
func TestOnCompletionHookBroadcast(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		var infos []pg.WorkInfo
		g.OnCompletion(func(w pg.WorkInfo) { infos = append(infos, w) })
		x := []float32{float32(g.Rank()), 1}
		for range 2 {
			if g.Rank() == 0 {
				time.Sleep(time.Second) // virtual
			}
			require.NoError(t, g.BroadcastAsync(t.Context(), colligo.Of(x), 0).Wait(t.Context()))
		}
		require.NoError(t, g.Close(), "Close waits for the hook")
		require.Equal(t, []float32{0, 1}, x)
		require.Len(t, infos, 2)
		for i, w := range infos {
			require.Equal(t, pg.OpBroadcast, w.Op)
			require.Equal(t, uint64(i+1), w.Seq)
			require.Equal(t, 8, w.Bytes)
			require.NoError(t, w.Err)
			require.GreaterOrEqual(t, w.Active, time.Duration(0))
			require.Equal(t, w.Finished.Sub(w.Started), w.Active)
			if g.Rank() == 1 {
				require.GreaterOrEqual(t, w.Active, time.Second)
			}
		}
	})
}

// TestOnCompletionHookMixedOps starts operations and waits for them by WaitPending alone.
func TestOnCompletionHookMixedOps(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		var ops []pg.OpType
		g.OnCompletion(func(w pg.WorkInfo) { ops = append(ops, w.Op) })
		x := []float32{1}
		all := [][]float32{{0}, {0}}
		g.AllReduceAsync(t.Context(), colligo.Of(x), colligo.Sum)
		g.AllGatherAsync(t.Context(), tensors(all), colligo.Of(x))
		g.AllReduceAsync(t.Context(), colligo.Of(x), colligo.Sum)
		require.NoError(t, g.WaitPending(t.Context()))
		require.Zero(t, g.Pending())
		require.Equal(t, []pg.OpType{pg.OpAllReduce, pg.OpAllGather, pg.OpAllReduce}, ops)
		require.Equal(t, []float32{4}, x)
		require.Equal(t, [][]float32{{2}, {2}}, all)
	})
}

// TestOnCompletionHookSeq counts on.
func TestOnCompletionHookSeq(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		var seqs []uint64
		g.OnCompletion(func(w pg.WorkInfo) { seqs = append(seqs, w.Seq) })
		for range 3 {
			require.NoError(t, g.Broadcast(t.Context(), colligo.Of([]int32{1}), 0))
		}
		require.NoError(t, g.WaitPending(t.Context()))
		require.Equal(t, []uint64{1, 2, 3}, seqs)
	})
}

// TestSlowHook does not hold up the group, and hears of everything before Close returns.
func TestSlowHook(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		var mu sync.Mutex
		heard := 0
		g.OnCompletion(func(pg.WorkInfo) {
			time.Sleep(time.Second)
			mu.Lock()
			heard++
			mu.Unlock()
		})
		start := time.Now()
		for range 100 {
			require.NoError(t, g.AllReduce(t.Context(), colligo.Of([]int32{1}), colligo.Sum))
		}
		require.Less(t, time.Since(start), time.Second)
		require.NoError(t, g.Close())
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, 100, heard)
	})
}

// TestSlowHookBesideClose waits for what is pending while the group is being closed: until the hook has heard of all.
func TestSlowHookBesideClose(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		var heard atomic.Int32
		g.OnCompletion(func(pg.WorkInfo) {
			time.Sleep(time.Second)
			heard.Add(1)
		})
		for range 10 {
			require.NoError(t, g.AllReduce(t.Context(), colligo.Of([]int32{1}), colligo.Sum))
		}
		closed := make(chan error)
		go func() { closed <- g.Close() }()
		time.Sleep(3 * time.Second)
		require.NoError(t, g.WaitPending(t.Context()))
		require.EqualValues(t, 10, heard.Load())
		require.NoError(t, <-closed)
	})
}

// TestHookOfFailure hears of operations that fail, each with its own error, and may call the group. Frames take their time, so
// that all are called before any fails.
func TestHookOfFailure(t *testing.T) {
	pgtest.RunWith(t, 2, pgtest.Options{Sim: sim.Config{MaxDelay: time.Millisecond}}, func(t *testing.T, g *pg.Group) {
		var infos []pg.WorkInfo
		g.OnCompletion(func(w pg.WorkInfo) {
			infos = append(infos, w)
			if w.Err != nil && !errors.Is(g.Barrier(t.Context()), colligo.ErrMismatch) {
				t.Error("the group works on")
			}
		})
		n := 10 + g.Rank()
		for _, x := range [][]int32{make([]int32, 10), make([]int32, n), make([]int32, 10)} {
			g.AllReduceAsync(t.Context(), colligo.Of(x), colligo.Sum)
		}
		require.NoError(t, g.WaitPending(t.Context()))
		require.Len(t, infos, 3)
		require.NoError(t, infos[0].Err)
		for _, w := range infos[1:] {
			require.ErrorIs(t, w.Err, colligo.ErrMismatch)
		}
		m := g.Metrics().Ops["ALLREDUCE"]
		require.Equal(t, []uint64{1, 2}, []uint64{m.Done, m.Failed})
	})
}

// TestHooksCalledFromManyGoroutines has messages and collectives end side by side on real time.
func TestHooksCalledFromManyGoroutines(t *testing.T) {
	const times, k = 50, 4
	for _, transport := range []string{"sim", "shm"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			pgtest.RunWith(t, 2, pgtest.Options{Transport: transport, RealTime: true}, func(t *testing.T, g *pg.Group) {
				heard := map[pg.OpType]int{}
				g.OnCompletion(func(w pg.WorkInfo) { heard[w.Op]++ })
				var all sync.WaitGroup
				for i := range k {
					all.Go(func() {
						for range times {
							w := g.SendAsync(t.Context(), colligo.Of([]int32{1}), 1-g.Rank(), i)
							if err := errors.Join(g.Recv(t.Context(), colligo.Of([]int32{1}), 1-g.Rank(), i), w.Wait(t.Context())); err != nil {
								t.Error(err)
							}
						}
					})
				}
				for range times {
					require.NoError(t, g.Barrier(t.Context()))
				}
				all.Wait()
				require.NoError(t, g.WaitPending(t.Context()))
				require.Equal(t, map[pg.OpType]int{pg.OpSend: times * k, pg.OpRecv: times * k, pg.OpBarrier: times}, heard)
			})
		})
	}
}
