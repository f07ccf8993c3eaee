package pg

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// oneLaunch is a still backend that launches blocks as one.
type oneLaunch struct{ still }

func (*oneLaunch) Run(context.Context, *backend.Call) (backend.Pending, error) { return nil, nil }

func (*oneLaunch) Begin(context.Context, int, bool) error { return nil }

func (o *oneLaunch) End(context.Context) (backend.Pending, error) { return &o.still, nil }

// TestWatchdogOfBlock finds a block that was launched as one and that nobody waits for, and ends a blocking wait for it.
func TestWatchdogOfBlock(t *testing.T) {
	for name, waits := range map[string]bool{"nobody waits": false, "blocking wait": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, _, x := stillGroup(t, func(c *Config) { c.Watchdog.BlockingWait = On })
				g.devices.put(x.Device(), &oneLaunch{})
				w := g.CoalesceAsync(t.Context(), func(b *Batch) error {
					b.AllReduce(x, colligo.Sum)
					b.AllReduce(x, colligo.Max)
					return nil
				})
				if waits {
					require.ErrorIs(t, w.Wait(t.Context()), colligo.ErrTimeout)
				}
				time.Sleep(12 * time.Second)
				require.ErrorIs(t, g.Err(), colligo.ErrTimeout)
				require.ErrorContains(t, g.Err(), "all_reduce #1 (float32 sum, 16 B): not finished after 10s")
				require.NoError(t, g.Close())
			})
		})
	}
}

// TestEphemeralTimeoutUnwatched takes more time back though nobody sees the end of the operation that had it.
func TestEphemeralTimeoutUnwatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, x := stillGroup(t, func(c *Config) { c.Watchdog.OnError = NoHandling })
		require.NoError(t, g.AddEphemeralTimeout(20*time.Second))
		w := g.AllReduceAsync(t.Context(), x, colligo.Sum)
		require.Equal(t, 30*time.Second, w.op.Limit)
		s.over.Store(true)
		require.NoError(t, w.Synchronize(t.Context()))
		require.Equal(t, 10*time.Second, granted(g))
		require.NoError(t, g.Close())
	})
}

// granted returns the limit that an operation gets which is called now.
func granted(g *Group) time.Duration {
	o := &op.Op{}
	g.limits.grant(o)
	return o.Limit
}
