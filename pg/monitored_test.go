package pg_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport/sim"
)

// TestMonitoredBarrier lets nobody through before the last has come.
func TestMonitoredBarrier(t *testing.T) {
	for _, transport := range []string{"sim", "shm", "tcp"} {
		for _, size := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("transport=%s/size=%d", transport, size), func(t *testing.T) {
				needs(t, transport)
				var mu sync.Mutex
				came := make([]int, 20)
				pgtest.RunWith(t, size, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
					for i := range came {
						mu.Lock()
						came[i]++
						mu.Unlock()
						require.NoError(t, g.MonitoredBarrier(t.Context(), time.Minute, i%2 == 0))
						mu.Lock()
						require.Equal(t, size, came[i])
						mu.Unlock()
					}
					require.NoError(t, g.Barrier(t.Context()))
				})
			})
		}
	}
}

// TestMonitoredBarrierNames has ranks come too late. Everybody learns who, those that are late too, and the group goes on.
func TestMonitoredBarrierNames(t *testing.T) {
	for _, all := range []bool{false, true} {
		says := "rank 1 has not come after 3s"
		if all {
			says = "ranks 1, 3 have not come after 3s"
		}
		pgtest.Run(t, 5, func(t *testing.T, g *pg.Group) {
			pending := g.AllReduceAsync(t.Context(), colligo.Of([]float32{1}), colligo.Sum)
			if g.Rank()%2 == 1 {
				time.Sleep(time.Minute)
			}
			start := time.Now()
			err := g.MonitoredBarrier(t.Context(), 3*time.Second, all)
			require.ErrorIs(t, err, colligo.ErrTimeout)
			require.ErrorContains(t, err, says)
			var e *colligo.OpError
			require.ErrorAs(t, err, &e)
			require.Equal(t, "monitored_barrier", e.Op)
			require.EqualValues(t, 1, e.Seq)
			require.Equal(t, g.Rank() != 0, e.Second)
			if g.Rank() == 0 {
				require.Equal(t, 1, e.Peer)
			}
			if g.Rank()%2 == 1 {
				require.Zero(t, time.Since(start), "it is told at once")
			}
			require.NoError(t, g.MonitoredBarrier(t.Context(), 2*time.Minute, all), "the next one")
			require.NoError(t, pending.Wait(t.Context()), "the group has not failed")
		})
	}
}

// TestMonitoredBarrierWithoutRankZero ends on all ranks though the one that decides never comes.
func TestMonitoredBarrierWithoutRankZero(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 0 {
			time.Sleep(time.Minute)
			return
		}
		err := g.MonitoredBarrier(t.Context(), 5*time.Second, false)
		require.ErrorIs(t, err, colligo.ErrTimeout)
		require.ErrorContains(t, err, "rank 0 has not answered after 5.5s")
		err = g.MonitoredBarrier(t.Context(), time.Hour, false)
		require.ErrorIs(t, err, colligo.ErrPeerLost, "it has closed the group meanwhile")
		require.ErrorContains(t, err, "rank 0 has left")
	})
}

// TestMonitoredBarrierLateRankZero counts the time from when it comes.
func TestMonitoredBarrierLateRankZero(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		time.Sleep([]time.Duration{4 * time.Second, 0, 7 * time.Second}[g.Rank()])
		require.NoError(t, g.MonitoredBarrier(t.Context(), 5*time.Second, false))
	})
}

// TestMonitoredBarrierOfTheDead does not wait for a rank that is gone.
func TestMonitoredBarrierOfTheDead(t *testing.T) {
	for _, all := range []bool{false, true} {
		var net *sim.Net
		pgtest.RunWith(t, 3, pgtest.Options{Net: func(n *sim.Net) { net = n }}, func(t *testing.T, g *pg.Group) {
			if g.Rank() == 2 {
				time.Sleep(time.Second)
				net.Kill(2)
				return
			}
			start := time.Now()
			err := g.MonitoredBarrier(t.Context(), time.Hour, all)
			require.ErrorContains(t, err, "rank 2 has left")
			require.ErrorIs(t, err, colligo.ErrPeerLost)
			require.Less(t, time.Since(start), time.Minute)
		})
	}
}

// TestMonitoredBarrierEnds when the context or the group does.
func TestMonitoredBarrierEnds(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
			require.NoError(t, g.Close())
			return
		}
		require.ErrorContains(t, g.MonitoredBarrier(t.Context(), -1, true), "a timeout of")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := g.MonitoredBarrier(ctx, time.Hour, true)
		require.ErrorIs(t, err, colligo.ErrTimeout)
		if g.Rank() == 0 {
			require.ErrorContains(t, err, "rank 1 has not come after 2s")
			time.AfterFunc(time.Second, func() { require.NoError(t, g.Close()) })
		}
		require.Error(t, g.MonitoredBarrier(t.Context(), 10*time.Second, true))
	})
}

// TestMonitoredBarrierTwice refuses a second call of a rank that is in one, and counts it not.
func TestMonitoredBarrierTwice(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		for range 2 {
			second := make(chan error, 1)
			if g.Rank() == 0 {
				time.AfterFunc(time.Second, func() { second <- g.MonitoredBarrier(t.Context(), 0, false) })
			} else {
				time.Sleep(time.Minute)
				second <- nil
			}
			require.NoError(t, g.MonitoredBarrier(t.Context(), time.Hour, false))
			if err := <-second; g.Rank() == 0 {
				require.ErrorContains(t, err, "this rank is in a monitored barrier already")
			}
		}
	})
}

// TestMonitoredBarrierOfTheClosed ends when this rank itself closes the group.
func TestMonitoredBarrierOfTheClosed(t *testing.T) {
	for closer := range 2 {
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			if g.Rank() != closer {
				time.Sleep(time.Minute)
				return
			}
			time.AfterFunc(time.Second, func() { require.NoError(t, g.Close()) })
			start := time.Now()
			require.ErrorIs(t, g.MonitoredBarrier(t.Context(), time.Hour, false), colligo.ErrClosed)
			require.Less(t, time.Since(start), 10*time.Second)
		})
	}
}

// TestMonitoredBarrierOfTheLate ends because the group has failed, and says so. The group failed by a timeout, which is not
// the barrier's: its missing ranks had an hour to come.
func TestMonitoredBarrierOfTheLate(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		switch g.Rank() {
		case 0:
			err := g.MonitoredBarrier(t.Context(), time.Hour, false)
			require.ErrorIs(t, err, colligo.ErrTimeout)
			require.ErrorContains(t, err, "rank 1 reported: ")
		case 1:
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			require.ErrorIs(t, g.Barrier(ctx), colligo.ErrTimeout)
		}
		time.Sleep(time.Minute)
	})
}
