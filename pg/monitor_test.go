package pg

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/store"
)

// hanging is a kind of device whose operations never end, or do when the test says so.
const hanging = colligo.DeviceKind(77)

// still is a backend for such devices.
type still struct {
	over  atomic.Bool
	err   atomic.Pointer[error]
	held  chan struct{} // Run does not return before it is closed; nil: at once
	looks atomic.Int64  // calls of Done
}

func (s *still) Run(context.Context, *backend.Call) (backend.Pending, error) {
	if s.held != nil {
		<-s.held
	}
	return s, nil
}

func (s *still) Abort(cause error)          { s.err.CompareAndSwap(nil, &cause) }
func (s *still) Close() error               { return nil }
func (s *still) Wait(context.Context) error { return nil }

func (s *still) Done() bool {
	s.looks.Add(1)
	return s.over.Load() || s.err.Load() != nil
}

func (s *still) Synchronize(ctx context.Context) error {
	for {
		switch err := s.err.Load(); {
		case s.over.Load():
			return nil
		case err != nil:
			return *err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		time.Sleep(time.Millisecond)
	}
}

// stillGroup makes a group of one rank with such a backend, which need not be registered.
func stillGroup(t *testing.T, change func(c *Config)) (*Group, *still, colligo.Tensor) {
	t.Helper()
	c := quiet
	c.Store, c.Size, c.Timeout, c.Recorder.DumpOnError = store.NewHash(), 1, 10*time.Second, Off
	if change != nil {
		change(&c)
	}
	g, err := Init(t.Context(), c)
	require.NoError(t, err)
	d, s := colligo.Device{Kind: hanging}, &still{}
	g.devices.put(d, s)
	return g, s, colligo.OnDevice(d, 4096, 4, colligo.Float32)
}

// TestWatchdog finds an operation on a device that nobody waits for.
func TestWatchdog(t *testing.T) {
	for name, c := range map[string]struct {
		own   time.Duration // of the context; 0: none
		after time.Duration
	}{"the group's limit": {0, 10 * time.Second}, "the context's": {3 * time.Second, 3 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, _, x := stillGroup(t, nil)
				g.AllReduceAsync(t.Context(), x, colligo.Sum)
				ctx, cancel := context.WithTimeout(t.Context(), max(c.own, time.Nanosecond))
				defer cancel()
				if c.own > 0 {
					g.AllReduceAsync(ctx, x, colligo.Sum)
				}
				time.Sleep(c.after - time.Second)
				require.NoError(t, g.Err())
				time.Sleep(2 * time.Second)
				require.ErrorIs(t, g.Err(), colligo.ErrTimeout)
				require.ErrorContains(t, g.Err(), "all_reduce #")
				require.ErrorContains(t, g.Err(), "not finished after "+c.after.String())
				require.NoError(t, g.Close())
			})
		})
	}
}

// TestWatchdogForgets ends when everything is done, and begins anew.
func TestWatchdogForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, x := stillGroup(t, nil)
		for range 3 {
			s.over.Store(false)
			for range 100 {
				g.AllReduceAsync(t.Context(), x, colligo.Sum)
			}
			s.over.Store(true)
			time.Sleep(2 * time.Second)
			looking, left := g.devices.watch.Left()
			require.False(t, looking)
			require.Zero(t, left)
		}
		time.Sleep(time.Minute)
		require.NoError(t, g.Err())
		require.NoError(t, g.Close())
	})
}

// TestWatchdogIsCheap has 10,000 operations pending. A look asks for the first alone.
func TestWatchdogIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, x := stillGroup(t, func(c *Config) { c.Timeout = time.Hour })
		const pending = 10_000
		for range pending {
			g.AllReduceAsync(t.Context(), x, colligo.Sum)
		}
		time.Sleep(time.Second) // from now on it looks every 50 ms
		before := s.looks.Load()
		time.Sleep(99 * 50 * time.Millisecond) // a look each
		asked := s.looks.Load() - before
		require.LessOrEqual(t, asked, int64(200))
		require.GreaterOrEqual(t, asked, int64(99), "it has looked")
		s.over.Store(true)
		time.Sleep(5 * time.Second)
		_, left := g.devices.watch.Left()
		require.Zero(t, left)
		require.NoError(t, g.Close())
	})
}

// TestNobodyWatches leaves devices alone in mode NoHandling; only who waits is told.
func TestNobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, x := stillGroup(t, func(c *Config) { c.Watchdog.OnError, c.Watchdog.BlockingWait = NoHandling, On })
		w := g.AllReduceAsync(t.Context(), x, colligo.Sum)
		time.Sleep(time.Minute)
		require.NoError(t, g.Err())
		err := w.Wait(t.Context())
		require.ErrorIs(t, err, colligo.ErrTimeout)
		require.ErrorContains(t, err, "not finished after 10s")
		require.Nil(t, s.err.Load(), "the device is left alone")
		require.NoError(t, g.Close())
	})
}

// TestBlockingWait holds the caller until the device is done, or late.
func TestBlockingWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, x := stillGroup(t, func(c *Config) { c.Watchdog.BlockingWait = On })
		w := g.AllReduceAsync(t.Context(), x, colligo.Sum)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("later")) })
		require.EqualError(t, w.Wait(ctx), "later", "a program that gives up a wait says nothing of the operation")
		time.AfterFunc(5*time.Second, func() { s.over.Store(true) })
		start := time.Now()
		require.NoError(t, w.Wait(t.Context()))
		require.InDelta(t, 5, time.Since(start).Seconds(), 0.5)
		time.Sleep(2 * time.Second) // until the watchdog has seen it
		s.over.Store(false)
		w = g.AllReduceAsync(t.Context(), x, colligo.Sum)
		start = time.Now()
		require.ErrorIs(t, w.Wait(t.Context()), colligo.ErrTimeout)
		require.InDelta(t, 10, time.Since(start).Seconds(), 1)
		require.NoError(t, g.Close())
	})
}

// TestBlockingWaitWithDeadline has an operation count as late that is pending at the deadline of a blocking Wait.
func TestBlockingWaitWithDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, x := stillGroup(t, func(c *Config) { c.Watchdog.BlockingWait = On })
		w := g.AllReduceAsync(t.Context(), x, colligo.Sum)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := w.Wait(ctx)
		require.ErrorIs(t, err, colligo.ErrTimeout)
		require.ErrorContains(t, err, "all_reduce #1")
		require.Regexp(t, `not finished after 1(\.00\d)?s`, err.Error()) // the wait looks once a millisecond
		require.InDelta(t, 1, time.Since(start).Seconds(), 0.1)
		require.ErrorIs(t, g.Err(), colligo.ErrTimeout)
		require.NotNil(t, s.err.Load(), "the device hears of it")
		require.NoError(t, g.Close())
	})
}

// TestHeartbeat has a call of the backend hang. The monitor says so once, and in the modes that do so ends the process;
// after Close it does nothing any more.
func TestHeartbeat(t *testing.T) {
	for _, mode := range []ErrorMode{CleanUp, TearDown} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended atomic.Int32
				told := &counter{}
				g, s, x := stillGroup(t, func(c *Config) {
					c.Timeout, c.Watchdog.OnError, c.Watchdog.Heartbeat = time.Hour, mode, time.Minute
					c.Watchdog.Exit, c.Log = func(int) { ended.Add(1) }, told.logger()
				})
				s.held = make(chan struct{})
				done := make(chan struct{})
				go func() { defer close(done); g.AllReduceAsync(t.Context(), x, colligo.Sum) }()
				time.Sleep(30 * time.Second)
				require.Zero(t, told.count("is stuck"))
				time.Sleep(10 * time.Minute)
				require.Equal(t, 1, told.count("is stuck"))
				require.Equal(t, mode.ends(), ended.Load() == 1)
				close(s.held)
				<-done
				s.over.Store(true)
				require.NoError(t, g.Close())
				time.Sleep(time.Hour)
				require.Equal(t, 1, told.count("is stuck"))
			})
		})
	}
}

// TestHeartbeatOfCalls has calls of the backend follow one another, each of which takes nearly as long as the heartbeat: they are signs of
// life. Then one hangs. Operations on the CPU that go on beside it are none of the backend's.
func TestHeartbeatOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &counter{}
		g, s, x := stillGroup(t, func(c *Config) {
			c.Timeout, c.Watchdog.Heartbeat, c.Watchdog.Exit, c.Log = time.Hour, time.Minute, func(int) {}, told.logger()
		})
		call := func(beside func()) {
			s.held = make(chan struct{})
			done := make(chan struct{})
			go func() { defer close(done); g.AllReduceAsync(t.Context(), x, colligo.Sum) }()
			beside()
			close(s.held)
			<-done
		}
		for range 20 {
			call(func() { time.Sleep(50 * time.Second) })
		}
		require.Zero(t, told.count("is stuck"))
		call(func() {
			for range 20 {
				require.NoError(t, g.AllReduce(t.Context(), colligo.Of([]float32{1}), colligo.Sum))
				time.Sleep(5 * time.Second)
			}
		})
		require.Equal(t, 1, told.count("a call of the device's backend is stuck"))
		s.over.Store(true)
		require.NoError(t, g.Close())
	})
}

// TestHeartbeatWhileRanksCompare has a rank come to a call on a device long after the heartbeat. The other one waits for it before it gives
// the call to its backend, for at debug level DETAIL ranks compare their calls.
func TestHeartbeatWhileRanksCompare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &counter{}
		groups, on := onStill(t, func(c *Config) {
			c.Debug.Level, c.Timeout = DebugDetail, time.Hour
			c.Watchdog.Monitor, c.Watchdog.Heartbeat, c.Watchdog.Exit, c.Log = On, time.Minute, func(int) {}, told.logger()
		})
		for _, err := range onBoth(groups, func(g *Group) *Work {
			time.Sleep(time.Duration(g.rank) * 5 * time.Minute)
			return g.AllReduceAsync(t.Context(), on(2, 6), colligo.Sum)
		}) {
			require.NoError(t, err)
		}
		require.Zero(t, told.count("is stuck"))
		for _, g := range groups {
			require.NoError(t, g.Close())
		}
	})
}

// TestStuckEngine has the goroutine of the progress engine stop giving signs of life, and Close hang behind it.
func TestStuckEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &counter{}
		g, _, _ := stillGroup(t, func(c *Config) { c.Watchdog.Heartbeat, c.Log = time.Minute, told.logger() })
		run := g.host.Enqueue(&op.Op{Own: true}) // and nobody does
		require.True(t, run)
		time.Sleep(5 * time.Minute)
		require.Equal(t, 1, told.count("what drives the group's operations is stuck"))
		closed := make(chan error)
		go func() { closed <- g.Close() }()
		time.Sleep(5 * time.Minute)
		require.Equal(t, 1, told.count("is stuck"), "said once")
		g.host.Start(run)
		require.NoError(t, <-closed)
		time.Sleep(time.Hour)
	})
}

// counter keeps what is logged.
type counter struct {
	mu   sync.Mutex
	text []string
}

func (c *counter) logger() *slog.Logger { return slog.New(slog.NewTextHandler(c, nil)) }

// Write takes one line.
func (c *counter) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, string(b))
	return len(b), nil
}

func (c *counter) count(part string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, line := range c.text {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// TestBarrierOnCancelled gives up the wait for a device: the group fails, for its other ranks wait for this one.
func TestBarrierOnCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, x := stillGroup(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		require.ErrorIs(t, g.BarrierOn(ctx, x.Device()), context.Canceled)
		require.ErrorIs(t, g.Err(), context.Canceled)
		require.NoError(t, g.Close())
	})
}
