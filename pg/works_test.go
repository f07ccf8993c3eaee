package pg_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestWork reads a work before and after it is done, and stops waiting for it without stopping it.
func TestWork(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		x := filled(g.Rank(), 10, 0)
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
			require.NoError(t, g.AllReduce(t.Context(), colligo.Of(x), colligo.Sum))
			return
		}
		w := g.AllReduceAsync(t.Context(), colligo.Of(x), colligo.Sum)
		require.NoError(t, w.Err())
		why := errors.New("no longer interested")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		require.ErrorIs(t, w.Wait(ctx), why)
		select {
		case <-w.Done():
			t.Error("done without the other rank")
		default:
		}
		require.NoError(t, w.Wait(t.Context()))
		<-w.Done()
		require.NoError(t, w.Err())
		require.NoError(t, w.Wait(ctx), "what is done is done, whatever the context says")
		require.Equal(t, sum(2, 10, 0), x)
	})
}

// TestOrderOfWorks sees works end in the order of their calls.
func TestOrderOfWorks(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		var works []*pg.Work
		for i := range 30 {
			works = append(works, g.BroadcastAsync(t.Context(), colligo.Of(make([]byte, 100*i)), i%3))
		}
		for i := range works {
			<-works[i].Done()
			for j := range i {
				select {
				case <-works[j].Done():
				default:
					t.Errorf("work %d is done, %d is not", i, j)
				}
			}
		}
	})
}

// TestCloseWithPending ends pending works of every kind, after a while, and names them.
func TestCloseWithPending(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
			return
		}
		x := colligo.Of([]int32{1})
		works := []*pg.Work{g.AllReduceAsync(t.Context(), x, colligo.Sum), g.BarrierAsync(t.Context()),
			g.RecvAsync(t.Context(), colligo.Of([]int32{1}), 1, 0), g.RecvAnyAsync(t.Context(), colligo.Of([]int32{1}), 1)}
		blocked := make(chan error)
		go func() { blocked <- g.Barrier(t.Context()) }()
		time.Sleep(time.Second)
		began := time.Now()
		err := g.Close()
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorIs(t, err, colligo.ErrClosed)
		require.EqualError(t, err, "pg: close group 0: rank 0 had pending operations, which have failed: "+
			"all_reduce #1, barrier #2, barrier #3, recv #1 and 1 more: group closed")
		for _, w := range works {
			require.ErrorIs(t, w.Err(), colligo.ErrClosed)
		}
		require.ErrorIs(t, <-blocked, colligo.ErrClosed)
		require.ErrorIs(t, g.Barrier(t.Context()), colligo.ErrClosed)
		require.ErrorIs(t, g.BarrierAsync(t.Context()).Err(), colligo.ErrClosed)
		require.ErrorIs(t, g.Err(), colligo.ErrClosed)
		require.NoError(t, g.Close())
	})
}

// TestFailureReachesAll has one of many pending operations fail: all end with that reason, on both ranks, and only one is
// the first cause.
func TestFailureReachesAll(t *testing.T) {
	var mu sync.Mutex
	firsts := 0
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		n := 10 + g.Rank()
		works := []*pg.Work{g.RecvAsync(t.Context(), colligo.Of([]int32{1}), 1-g.Rank(), 0)}
		for i := range 5 {
			if i == 2 {
				works = append(works, g.AllReduceAsync(t.Context(), colligo.Of(make([]int32, n)), colligo.Sum))
			}
			works = append(works, g.AllReduceAsync(t.Context(), colligo.Of(make([]int32, 10)), colligo.Sum))
		}
		for i, w := range works {
			err := w.Wait(t.Context())
			if i == 1 || i == 2 { // came before the one that failed
				if err == nil {
					continue
				}
			}
			require.ErrorIs(t, err, colligo.ErrMismatch, "work %d", i)
			require.ErrorContains(t, err, "(11 int32 elements, sum)", "work %d", i)
			require.ErrorContains(t, err, "(10 int32 elements, sum)", "work %d", i)
			var e *colligo.OpError
			require.ErrorAs(t, err, &e)
			if mu.Lock(); !e.Second {
				firsts++
				require.Equal(t, uint64(3), e.Seq)
			}
			mu.Unlock()
		}
		require.ErrorContains(t, g.AllReduce(t.Context(), colligo.Of([]int32{1}), colligo.Sum), "(11 int32 elements, sum)")
	})
	require.Contains(t, []int{1, 2}, firsts)
}

// TestFailureBesideAStuckCollective has a message fail while a collective waits for a rank and others wait behind it. The
// collective gets a moment to complete; then all ends.
func TestFailureBesideAStuckCollective(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			require.NoError(t, g.Send(t.Context(), colligo.Of([]int32{1}), 0, 0))
			time.Sleep(time.Minute)
			return
		}
		var works []*pg.Work
		for range 4 {
			works = append(works, g.BarrierAsync(t.Context()))
		}
		start := time.Now()
		require.ErrorIs(t, g.Recv(t.Context(), colligo.Of([]int8{1}), 1, 0), colligo.ErrMismatch)
		for _, w := range works {
			require.ErrorIs(t, w.Wait(t.Context()), colligo.ErrMismatch)
		}
		require.LessOrEqual(t, time.Since(start), 1100*time.Millisecond)
	})
}

// TestDeadlineOfAsync limits one pending operation by the context of its call.
func TestDeadlineOfAsync(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Hour)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		start := time.Now()
		err := g.BarrierAsync(ctx).Wait(t.Context())
		require.ErrorIs(t, err, colligo.ErrTimeout)
		require.ErrorContains(t, err, "rank 1 has not entered after 7s; rank 0 waits")
		require.InDelta(t, 7, time.Since(start).Seconds(), 0.6)
	})
}

// TestDeadlineInTheQueue has the context of an operation end while it waits for its turn.
func TestDeadlineInTheQueue(t *testing.T) {
	for _, cancelled := range []bool{true, false} {
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			if g.Rank() == 1 {
				time.Sleep(time.Minute)
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if cancelled {
				time.AfterFunc(2*time.Second, cancel)
			}
			start := time.Now()
			first := g.AllReduceAsync(context.Background(), colligo.Of([]float32{1}), colligo.Sum)
			err := g.Barrier(ctx)
			require.Less(t, time.Since(start), 5*time.Second)
			require.ErrorContains(t, err, "barrier #2: waited for all_reduce #1 (1 float32 elements, sum): context ")
			require.ErrorIs(t, err, ctx.Err())
			require.Equal(t, !cancelled, errors.Is(err, colligo.ErrTimeout))
			require.ErrorIs(t, first.Wait(t.Context()), ctx.Err(), "the group has failed")
		})
	}
}

// TestEndedContext does not call with a context that has ended already, unless the operation can complete at once.
func TestEndedContext(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if g.Rank() == 0 {
			require.ErrorIs(t, g.Barrier(ctx), context.Canceled)
			return
		}
		time.Sleep(time.Minute)
		require.Error(t, g.Barrier(t.Context()))
	})
}

// TestGoroutinesOfOneRank calls from several goroutines of each rank at a time: messages between all of them, and
// collectives from one.
func TestGoroutinesOfOneRank(t *testing.T) {
	const size, k, times = 3, 6, 40
	for _, transport := range []string{"sim", "shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			pgtest.RunWith(t, size, pgtest.Options{Transport: transport, RealTime: true}, func(t *testing.T, g *pg.Group) {
				me := g.Rank()
				next, last := (me+1)%size, (me+size-1)%size
				var all sync.WaitGroup
				for i := range k {
					all.Go(func() {
						for j := range times {
							x := make([]float32, 10*i)
							w := g.SendAsync(t.Context(), colligo.Of(filled(me, 10*i, j)), next, i)
							if err := errors.Join(g.Recv(t.Context(), colligo.Of(x), last, i), w.Wait(t.Context())); err != nil {
								t.Error(err)
								return
							}
							if want := filled(last, 10*i, j); len(x) > 0 && (x[0] != want[0] || x[10*i-1] != want[10*i-1]) {
								t.Errorf("rank %d got %v for %v", me, x[:2], want[:2])
							}
						}
					})
				}
				for j := range times {
					x := filled(me, 50, j)
					require.NoError(t, g.AllReduce(t.Context(), colligo.Of(x), colligo.Sum))
					require.Equal(t, sum(size, 50, j), x)
				}
				all.Wait()
			})
		})
	}
}

// settles waits until no more goroutines are left than there were.
func settles(t *testing.T, before int) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, there were %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

// TestNoGoroutineIsLeft closes groups in the middle of operations.
func TestNoGoroutineIsLeft(t *testing.T) {
	for _, transport := range []string{"sim", "shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			before := runtime.NumGoroutine()
			var all sync.WaitGroup
			for range 5 { // at once, since each Close waits for what is pending
				all.Go(func() { pgtest.RunWith(t, 3, pgtest.Options{Transport: transport, RealTime: true}, closeAmid) })
			}
			all.Wait()
			settles(t, before)
		})
	}
}

// closeAmid closes a group while a receive, a barrier and, but for one rank, an all-reduce are pending.
func closeAmid(t *testing.T, g *pg.Group) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	require.NoError(t, g.Barrier(ctx))
	works := []*pg.Work{g.RecvAsync(ctx, colligo.Of(make([]byte, 10)), (g.Rank()+1)%3, 0), g.BarrierAsync(ctx)}
	if g.Rank() != 1 {
		works = append(works, g.AllReduceAsync(ctx, colligo.Of(make([]float32, 1<<16)), colligo.Sum))
	}
	err := g.Close()
	for _, w := range works {
		<-w.Done()
	}
	if err == nil { // a peer that had left before has ended the group
		require.ErrorIs(t, works[0].Err(), colligo.ErrPeerLost)
		return
	}
	var names []string
	if works[1].Err() != nil { // no rank leaves out the barrier
		names = append(names, "barrier #2")
	}
	if len(works) > 2 {
		names = append(names, "all_reduce #3")
	}
	requireNamed(t, g, err, append(names, "recv #1")...)
}

// requireNamed expects Close to name just these operations, in the order in which they ended, with the group's error.
func requireNamed(t *testing.T, g *pg.Group, closed error, operations ...string) {
	t.Helper()
	require.EqualError(t, closed, fmt.Sprintf("pg: close group %s: rank %d had pending operations, which have failed: %s: %v", g.Name(), g.Rank(),
		strings.Join(operations, ", "), g.Err()))
}
