package tenants

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// holder is a tenant that has something on the device for as long as a test wants.
type holder struct{ pending, held atomic.Bool }

func (h *holder) Hold() bool               { return h.held.CompareAndSwap(false, true) }
func (h *holder) Release()                 { h.held.Store(false) }
func (h *holder) Pending(cuda.Thread) bool { return h.pending.Load() }

// TestAwait waits beside a tenant that has something on the device. If it is a rank of the same group, Await waits until that has ended, else
// for Limit.
func TestAwait(t *testing.T) {
	for name, c := range map[string]struct {
		group string
		waits bool
	}{"same group": {"a", true}, "other group": {"b", false}, "no group": {"", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := cudasim.New(cudasim.Config{Devices: 1})
			cudasim.Limit(t, sim)
			defer sim.Close()
			d, err := sim.Driver().Device(0)
			require.NoError(t, err)
			th, err := d.Enter()
			require.NoError(t, err)
			defer th.Leave()
			own, busy := &holder{}, &holder{}
			x, y := New(d, own), New(d, busy)
			defer x.Close()
			defer y.Close()
			x.Join("a")
			if c.group != "" {
				y.Join(c.group)
			}
			x.Enter()
			y.Enter()
			busy.pending.Store(true)
			begun, least := time.Now(), Limit
			if c.waits {
				least = 2 * Limit
				time.AfterFunc(least, func() { busy.pending.Store(false) })
			}
			x.Await(th)
			took := time.Since(begun)
			require.GreaterOrEqual(t, took, least)
			require.Less(t, took, ReleaseLimit/2)
			require.False(t, own.held.Load() || busy.held.Load())
		})
	}
}
