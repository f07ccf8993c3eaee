package pg_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
)

// TestAbort ends a group from another goroutine while operations of all kinds are pending on every rank. All of them, and
// all later ones, name the reason.
func TestAbort(t *testing.T) {
	reason := errors.New("the learning rate is wrong")
	for _, size := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("size=%d", size), func(t *testing.T) {
			pgtest.Run(t, size, func(t *testing.T, g *pg.Group) {
				ctx := t.Context()
				var works []*pg.Work
				if size > 1 {
					works = append(works, g.RecvAnyAsync(ctx, colligo.Of(make([]float32, 4)), 9),
						g.RecvAsync(ctx, colligo.Of(make([]float32, 4)), (g.Rank()+1)%size, 1))
					if g.Rank() > 0 { // rank 0 never enters
						works = append(works, g.AllReduceAsync(ctx, colligo.Of(make([]float32, 4)), colligo.Sum), g.BarrierAsync(ctx))
					}
				}
				if g.Rank() == 0 {
					time.AfterFunc(time.Second, func() { g.Abort(reason); g.Abort(errors.New("another")) })
				}
				time.Sleep(2 * time.Second)
				for _, w := range works {
					err := w.Wait(ctx)
					require.ErrorIs(t, err, pg.ErrAborted)
					require.ErrorContains(t, err, "group aborted by rank 0: the learning rate is wrong")
				}
				err := g.Barrier(ctx)
				require.ErrorIs(t, err, pg.ErrAborted)
				require.ErrorContains(t, err, "the learning rate is wrong")
				if g.Rank() == 0 {
					require.ErrorIs(t, err, reason)
				}
			})
		})
	}
}

// TestAbortBlocking ends a call that another goroutine is blocked in.
func TestAbortBlocking(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 2 {
			time.Sleep(time.Minute)
			require.ErrorIs(t, g.Err(), pg.ErrAborted, "an idle rank hears of it")
			return
		}
		start := time.Now()
		if g.Rank() == 1 {
			time.AfterFunc(time.Second, func() { g.Abort(nil) })
		}
		err := g.AllReduce(t.Context(), colligo.Of(make([]float32, 1000)), colligo.Sum)
		require.ErrorIs(t, err, pg.ErrAborted)
		require.ErrorContains(t, err, "group aborted by rank 1")
		require.Less(t, time.Since(start), 2*time.Second)
	})
}

// TestSetTimeout changes the limit of operations to come.
func TestSetTimeout(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		require.Error(t, g.SetTimeout(0))
		require.Error(t, g.SetTimeout(-time.Second))
		require.Equal(t, pg.DefaultTimeout, g.Timeout())
		require.NoError(t, g.SetTimeout(7*time.Second))
		require.Equal(t, 7*time.Second, g.Timeout())
		if g.Rank() == 1 {
			time.Sleep(time.Hour)
			return
		}
		start := time.Now()
		err := g.Barrier(t.Context())
		require.ErrorContains(t, err, "rank 1 has not entered after 7s; rank 0 waits")
		require.InDelta(t, 7, time.Since(start).Seconds(), 1)
	})
}

// TestEphemeralTimeout gives more time to operations until the first of them is done.
func TestEphemeralTimeout(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Timeout = 5 * time.Second }}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		require.Error(t, g.AddEphemeralTimeout(0))
		require.NoError(t, g.AddEphemeralTimeout(20*time.Second))
		if g.Rank() == 1 {
			time.Sleep(20 * time.Second) // later than 5 s, and in time for 25 s
			require.NoError(t, g.Barrier(t.Context()))
			time.Sleep(20 * time.Second)
			return
		}
		require.NoError(t, g.Barrier(t.Context()))
		start := time.Now()
		require.ErrorContains(t, g.Barrier(t.Context()), "rank 1 has not entered after 5s; rank 0 waits")
		require.InDelta(t, 5, time.Since(start).Seconds(), 1)
	})
}

// TestModes fails a group in each mode; only two of them end the process, here in place of os.Exit.
func TestModes(t *testing.T) {
	for mode, ends := range map[pg.ErrorMode]bool{pg.NoHandling: false, pg.TearDown: true, pg.CleanUp: false, pg.SkipCleanUp: true} {
		t.Run(mode.String(), func(t *testing.T) {
			var mu sync.Mutex
			codes := map[int][]int{}
			o := pgtest.Options{Config: func(rank int, c *pg.Config) {
				c.Timeout, c.Watchdog.OnError = 3*time.Second, mode
				c.Watchdog.Exit = func(code int) {
					mu.Lock()
					defer mu.Unlock()
					codes[rank] = append(codes[rank], code)
				}
			}}
			pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
				if g.Rank() == 2 {
					time.Sleep(time.Minute)
					return
				}
				require.ErrorIs(t, g.Barrier(t.Context()), colligo.ErrTimeout)
				require.Error(t, g.Barrier(t.Context()))
			})
			if !ends {
				require.Empty(t, codes)
				return
			}
			require.Equal(t, map[int][]int{0: {pg.ExitCode}, 1: {pg.ExitCode}, 2: {pg.ExitCode}}, codes, "once each, on all ranks")
		})
	}
}

// TestCloseEndsNothing closes groups in the modes that end processes: closing is no failure.
func TestCloseEndsNothing(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) {
		c.Watchdog.OnError, c.Watchdog.Heartbeat = pg.TearDown, time.Second
		c.Watchdog.Exit = func(int) { panic("the process has ended") }
	}}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		require.NoError(t, g.Barrier(t.Context()))
		time.Sleep(time.Minute) // idle: no driver, no sign of life
		require.NoError(t, g.Barrier(t.Context()))
	})
}

// TestSlowIsAlive waits for much longer than the heartbeat; a driver that sleeps is not stuck.
func TestSlowIsAlive(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) {
		c.Watchdog.OnError, c.Watchdog.Heartbeat = pg.TearDown, time.Second
		c.Watchdog.Exit = func(int) { panic("the process has ended") }
	}}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
		}
		require.NoError(t, g.Barrier(t.Context()))
	})
}

// TestPropagate has a rank hear of a failure through the store though no note reaches it.
func TestPropagate(t *testing.T) {
	for _, on := range []pg.Toggle{pg.On, pg.Off} {
		t.Run("propagate="+on.String(), func(t *testing.T) {
			pgtest.RunWith(t, 3, pgtest.Options{Config: propagating(on)}, func(t *testing.T, g *pg.Group) {
				if g.Rank() == 0 {
					pg.FailForTest(g, errors.New("out of luck"))
				}
				time.Sleep(5 * time.Second)
				switch {
				case g.Rank() == 0 || on == pg.On:
					require.ErrorContains(t, g.Err(), "out of luck")
				default:
					require.NoError(t, g.Err())
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// deaf is a mesh that carries no notes.
type deaf struct{ transport.Mesh }

func (deaf) Notify(int, []byte) error { return nil }

func propagating(on pg.Toggle) func(rank int, c *pg.Config) {
	return func(_ int, c *pg.Config) {
		c.Watchdog.Propagate = on
		open := c.Open
		c.Open = func(ctx context.Context, tc *transport.Config) (transport.Mesh, error) {
			m, err := open(ctx, tc)
			return deaf{m}, err
		}
	}
}

// drowsy is a mesh that wakes its rank late, from when it is told.
type drowsy struct {
	transport.Mesh
	late atomic.Bool
}

func (d *drowsy) Wait(idle int, until time.Time) {
	d.Mesh.Wait(idle, until)
	if d.late.Swap(false) {
		time.Sleep(3 * host.Drain)
	}
}

// TestHeldUpTakesLate has a rank held up while all of an operation comes, and then the failure of another rank in the next operation. The
// operation completes.
func TestHeldUpTakesLate(t *testing.T) {
	var d *drowsy
	o := pgtest.Options{Config: func(rank int, c *pg.Config) {
		if open := c.Open; rank == 0 {
			c.Open = func(ctx context.Context, tc *transport.Config) (transport.Mesh, error) {
				m, err := open(ctx, tc)
				d = &drowsy{Mesh: m}
				return d, err
			}
		}
	}}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		x := filled(g.Rank(), 10, 0)
		if g.Rank() == 0 {
			w := g.BroadcastAsync(t.Context(), colligo.Of(x), 1)
			time.Sleep(time.Second)
			d.late.Store(true)
			require.NoError(t, w.Wait(t.Context()))
			require.Equal(t, filled(1, 10, 0), x)
			return
		}
		time.Sleep(2 * time.Second)
		require.NoError(t, g.Broadcast(t.Context(), colligo.Of(x), 1))
		require.NoError(t, g.SetTimeout(100*time.Millisecond))
		require.ErrorIs(t, g.Barrier(t.Context()), colligo.ErrTimeout)
	})
}

// TestGoodbyeAfterLoss has a peer close the group after another has died, and before the death has failed it. A message that the closed
// group would have sent tells of the death.
func TestGoodbyeAfterLoss(t *testing.T) {
	var net *sim.Net
	o := pgtest.Options{Sim: sim.Config{MaxDelay: time.Microsecond}, Net: func(n *sim.Net) { net = n }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		x := make([]float32, 1<<20)
		switch g.Rank() {
		case 0:
			time.Sleep(time.Second)
			net.Kill(0)
		case 1:
			send, receive := g.SendAsync(t.Context(), colligo.Of(x), 0, 0), g.RecvAsync(t.Context(), colligo.Of(x[:1]), 2, 0)
			for _, w := range []*pg.Work{receive, send} {
				err := w.Wait(t.Context())
				require.ErrorIs(t, err, colligo.ErrPeerLost)
				require.ErrorContains(t, err, "peer 0: rank 0: peer lost")
				require.NotContains(t, err.Error(), "peer closed the group")
			}
		case 2:
			time.Sleep(time.Second + 100*time.Millisecond)
			require.NoError(t, g.Close())
		}
	})
}

// TestPropagatedIsOfThisRun leaves the error of an earlier group of the same name in the store.
func TestPropagatedIsOfThisRun(t *testing.T) {
	shared := store.NewHash()
	for run := range 3 {
		o := pgtest.Options{Config: func(rank int, c *pg.Config) {
			c.Store = store.NewPrefix(fmt.Sprint(max(run, 1)), shared) // the last two in one place
			propagating(pg.On)(rank, c)
		}}
		pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
			time.Sleep(5 * time.Second)
			require.NoError(t, g.Err(), "run %d", run)
			time.Sleep(time.Second)
			if g.Rank() == 0 {
				pg.FailForTest(g, fmt.Errorf("failure %d", run))
			}
			time.Sleep(5 * time.Second)
			require.ErrorContains(t, g.Err(), fmt.Sprintf("failure %d", run))
			time.Sleep(time.Second)
		})
	}
}

// TestDesync logs where every rank is when an operation is late.
func TestDesync(t *testing.T) {
	var log lines
	o := pgtest.Options{Config: func(rank int, c *pg.Config) {
		c.Timeout, c.Debug.Desync = 3*time.Second, pg.On
		if rank == 0 {
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
			c.Timeout = 2 * time.Second
		}
	}}
	pgtest.RunWith(t, 4, o, func(t *testing.T, g *pg.Group) {
		require.NoError(t, g.Barrier(t.Context()))
		switch g.Rank() {
		case 2:
			require.Error(t, g.Recv(t.Context(), zeros[float32](1), 3, 8))
		case 3:
			time.Sleep(time.Minute)
		default:
			require.ErrorContains(t, g.AllReduce(t.Context(), zeros[float32](1), colligo.Sum),
				"ranks 2-3 have not entered after 2s; ranks 0-1 wait; rank 2 waits to receive from rank 3")
		}
	})
	for peer, does := range map[string]string{"peer=1": "is in all_reduce #2 (1 float32 elements, sum), last completed #1",
		"peer=2": "waits to receive from rank 3, last completed #1", "peer=3": "has nothing pending, last completed #1"} {
		require.True(t, slices.ContainsFunc(strings.Split(log.String(), "\n"), func(line string) bool {
			return strings.Contains(line, "where a rank is") && strings.Contains(line, peer) && strings.Contains(line, does)
		}), "%s: %s", peer, log.String())
	}
}

// TestAbortForAnotherGroup ends a group because another has failed. Ranks and places in the error are the other group's.
func TestAbortForAnotherGroup(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Timeout = 3 * time.Second }}
	pgtest.RunWith(t, 4, o, func(t *testing.T, g *pg.Group) {
		some, err := g.NewGroupWith(t.Context(), []int{2, 3}, pg.GroupOptions{Timeout: time.Hour})
		require.NoError(t, err)
		for range 5 {
			require.NoError(t, g.Barrier(t.Context()))
		}
		if g.Rank() != 2 {
			time.Sleep(time.Minute)
		} else {
			w := some.BarrierAsync(t.Context())
			reason := g.Barrier(t.Context())
			require.ErrorContains(t, reason, "ranks 0-1, 3 have not entered after 3s")
			start := time.Now()
			some.Abort(reason)
			require.ErrorIs(t, w.Wait(t.Context()), pg.ErrAborted)
			require.Less(t, time.Since(start), 100*time.Millisecond)
		}
		if g.Rank() >= 2 {
			failures := g.Dump(flight.DumpOptions{}).Failures
			require.Contains(t, failures[some.Name()].Text, "group aborted by rank 0")
			require.Empty(t, failures[some.Name()].Ranks)
		}
	})
}
