package pg

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// searched is a still backend whose memory holds a NaN in the fourth element of tensors at an odd address.
type searched struct{ still }

// Read implements backend.Reader, in pieces of two elements.
func (*searched) Read(_ context.Context, t colligo.Tensor, see func(piece []byte) bool) error {
	memory := make([]float32, t.Len())
	if t.Addr()%8192 != 0 {
		memory[3] = float32(math.NaN())
	}
	for b := colligo.Of(memory).CPUBytes(); len(b) > 0 && see(b[:8]); b = b[8:] {
	}
	return nil
}

// onStill makes two groups whose backends for a device are still, and returns tensors on it.
func onStill(t *testing.T, change func(c *Config)) ([]*Group, func(page, n int) colligo.Tensor) {
	t.Helper()
	c := quiet
	c.Timeout = 10 * time.Second
	change(&c)
	groups := inProcess(t, 2, c)
	d := colligo.Device{Kind: hanging}
	for _, g := range groups {
		s := &searched{}
		s.over.Store(true)
		g.devices.put(d, s)
	}
	return groups, func(page, n int) colligo.Tensor { return colligo.OnDevice(d, uintptr(4096*page), n, colligo.Float32) }
}

// onBoth calls on both ranks at once.
func onBoth(groups []*Group, call func(g *Group) *Work) (errs [2]error) {
	other := make(chan error)
	go func() { other <- call(groups[1]).Synchronize(context.Background()) }()
	errs[0] = call(groups[0]).Synchronize(context.Background())
	errs[1] = <-other
	return errs
}

// TestDetailOnDevice compares calls on devices, and calls on a device with those on the CPU.
func TestDetailOnDevice(t *testing.T) {
	for says, call := range map[string]func(g *Group, on func(page, n int) colligo.Tensor) *Work{
		"": func(g *Group, on func(page, n int) colligo.Tensor) *Work {
			return g.AllReduceAsync(t.Context(), on(2, 6), colligo.Sum)
		},
		"ranks differ in shape: rank 0 [6], rank 1 [7]": func(g *Group, on func(page, n int) colligo.Tensor) *Work {
			return g.AllReduceAsync(t.Context(), on(2, 6+g.rank), colligo.Sum)
		},
		"ranks differ in device: rank 0 device(77), rank 1 cpu": func(g *Group, on func(page, n int) colligo.Tensor) *Work {
			if g.rank == 0 {
				return g.AllReduceAsync(t.Context(), on(2, 6), colligo.Sum)
			}
			return g.AllReduceAsync(t.Context(), colligo.Of(make([]float32, 6)), colligo.Sum)
		},
	} {
		t.Run(says, func(t *testing.T) {
			groups, on := onStill(t, func(c *Config) { c.Debug.Level = DebugDetail })
			for range 3 {
				errs := onBoth(groups, func(g *Group) *Work { return call(g, on) })
				for _, err := range errs {
					if says == "" {
						require.NoError(t, err)
						continue
					}
					require.ErrorIs(t, err, colligo.ErrMismatch)
					require.ErrorContains(t, err, says)
				}
			}
		})
	}
}

// TestDetailMissingOnDevice names the rank that does not come.
func TestDetailMissingOnDevice(t *testing.T) {
	groups, on := onStill(t, func(c *Config) { c.Debug.Level, c.Timeout = DebugDetail, 200*time.Millisecond })
	err := groups[0].AllReduceAsync(t.Context(), on(2, 6), colligo.Sum).Synchronize(t.Context())
	require.ErrorIs(t, err, colligo.ErrTimeout)
	require.Regexp(t, "rank 1 (has not entered|does not answer) after 200ms; rank 0 waits", err.Error()) // the latter if it is held up when asked
}

// TestNaNOnDevice asks the backend.
func TestNaNOnDevice(t *testing.T) {
	groups, on := onStill(t, func(c *Config) { c.Debug.NaNCheck = On })
	for _, err := range onBoth(groups, func(g *Group) *Work { return g.AllReduceAsync(t.Context(), on(2, 6), colligo.Sum) }) {
		require.NoError(t, err)
	}
	err := groups[1].AllReduceAsync(t.Context(), on(3, 6), colligo.Sum).Synchronize(t.Context())
	require.ErrorContains(t, err, "all_reduce #2 (float32 sum, 24 B): NaN in float32 tensor 0 at element 3 [rank 1 of group 0]")
}
