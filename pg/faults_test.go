package pg_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
)

// errorsOf collects what each rank's call returned.
type errorsOf struct {
	sync.Mutex
	byRank map[int]error
}

func (e *errorsOf) add(g *pg.Group, err error) {
	e.Lock()
	defer e.Unlock()
	if e.byRank == nil {
		e.byRank = map[int]error{}
	}
	e.byRank[g.Rank()] = err
}

// TestMismatch has one rank call something else; every rank gets an error, and the errors of the two sides name both calls.
func TestMismatch(t *testing.T) {
	x := func() colligo.Tensor { return colligo.Of(make([]float32, 100)) }
	odd := map[string]struct {
		call func(ctx context.Context, g *pg.Group) error
		says string
	}{
		"other collective": {func(ctx context.Context, g *pg.Group) error { return g.Broadcast(ctx, x(), 1) },
			"broadcast #1 (100 float32 elements, root 1)"},
		"other op": {func(ctx context.Context, g *pg.Group) error { return g.AllReduce(ctx, x(), colligo.Max) },
			"all_reduce #1 (100 float32 elements, max)"},
		"other type": {func(ctx context.Context, g *pg.Group) error {
			return g.AllReduce(ctx, colligo.Of(make([]int32, 100)), colligo.Sum)
		}, "all_reduce #1 (100 int32 elements, sum)"},
		"other count": {func(ctx context.Context, g *pg.Group) error {
			return g.AllReduce(ctx, colligo.Of(make([]float32, 99)), colligo.Sum)
		}, "all_reduce #1 (99 float32 elements, sum)"},
		"barrier": {func(ctx context.Context, g *pg.Group) error { return g.Barrier(ctx) }, "barrier #1"},
	}
	for name, c := range odd {
		for _, size := range []int{2, 3, 5} {
			t.Run(fmt.Sprintf("%s/size=%d", name, size), func(t *testing.T) {
				var got errorsOf
				pgtest.Run(t, size, func(t *testing.T, g *pg.Group) {
					call := func(ctx context.Context, g *pg.Group) error { return g.AllReduce(ctx, x(), colligo.Sum) }
					if g.Rank() == 1 {
						call = c.call
					}
					err := call(t.Context(), g)
					if err == nil { // a root is done when it has sent; the next call knows
						err = g.Barrier(t.Context())
					}
					got.add(g, err)
				})
				for rank, err := range got.byRank {
					require.ErrorIs(t, err, colligo.ErrMismatch, "rank %d", rank)
					require.ErrorContains(t, err, "all_reduce #1 (100 float32 elements, sum)", "rank %d", rank)
					// The root of a broadcast has sent and gone on: its peers may meet it in the barrier.
					require.True(t, strings.Contains(err.Error(), c.says) ||
						name == "other collective" && strings.Contains(err.Error(), "barrier #2"), "rank %d: %v", rank, err)
				}
				require.Len(t, got.byRank, size)
			})
		}
	}
}

// TestOtherRoot has ranks disagree about the root.
func TestOtherRoot(t *testing.T) {
	var got errorsOf
	pgtest.Run(t, 4, func(t *testing.T, g *pg.Group) {
		root := 0
		if g.Rank() == 2 {
			root = 1
		}
		err := g.Reduce(t.Context(), colligo.Of(make([]int64, 10)), root, colligo.Sum)
		if err == nil {
			err = g.Barrier(t.Context())
		}
		got.add(g, err)
	})
	for rank, err := range got.byRank {
		require.ErrorIs(t, err, colligo.ErrMismatch, "rank %d", rank)
	}
}

// TestMissingRank has a rank that never comes; the line names it.
func TestMissingRank(t *testing.T) {
	start := time.Now()
	var got errorsOf
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Timeout = 10 * time.Minute }}
	pgtest.RunWith(t, 4, o, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 3 {
			time.Sleep(time.Hour) // of the bubble
			return
		}
		got.add(g, g.AllReduce(t.Context(), colligo.Of(make([]float32, 1<<20)), colligo.Sum))
	})
	require.Less(t, time.Since(start), 5*time.Minute, "time is virtual")
	for rank, err := range got.byRank {
		require.ErrorIs(t, err, colligo.ErrTimeout, "rank %d", rank)
		require.ErrorContains(t, err, "all_reduce #1 (float32 sum, 4 MiB): ", "rank %d", rank)
		require.ErrorContains(t, err, "rank 3 has not entered after 10m0s; ranks 0-2 wait", "rank %d", rank)
	}
	require.Len(t, got.byRank, 3)
}

// TestCallTimeout gives one call a shorter limit by its context.
func TestCallTimeout(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
			require.Error(t, g.Barrier(t.Context()), "the group has failed")
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := g.Barrier(ctx)
		require.ErrorIs(t, err, colligo.ErrTimeout)
		require.ErrorContains(t, err, "rank 1 has not entered after 3s; rank 0 waits")
		require.InDelta(t, 3, time.Since(start).Seconds(), 0.6)
	})
}

// TestCancel ends a blocking call by its context.
func TestCancel(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
			return
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("enough")) })
		require.ErrorContains(t, g.Barrier(ctx), "enough")
	})
}

// TestPeerLoss kills a rank at each of its frames in turn; every survivor names it in time.
func TestPeerLoss(t *testing.T) {
	for coll, check := range lossy {
		for frames := range 4 {
			t.Run(fmt.Sprintf("coll=%s/frames=%d", coll, frames), func(t *testing.T) {
				var got errorsOf
				o := pgtest.Options{
					Config: func(_ int, c *pg.Config) { c.Timeout = 10 * time.Second },
					Sim:    sim.Config{MinDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond, Reorder: true},
				}
				var net *sim.Net
				o.Net = func(n *sim.Net) { net = n }
				pgtest.RunWith(t, 4, o, func(t *testing.T, g *pg.Group) {
					if g.Rank() == 2 {
						net.KillAfter(2, uint64(frames+1))
					}
					start := time.Now()
					var err error
					for range 50 { // some collectives of a rank send nothing
						if err = check(t.Context(), g); err != nil {
							break
						}
					}
					if g.Rank() != 2 {
						got.add(g, err)
						require.Less(t, time.Since(start), 11*time.Second)
					}
				})
				for rank, err := range got.byRank {
					require.Error(t, err, "rank %d", rank)
					require.ErrorIs(t, err, colligo.ErrPeerLost, "rank %d", rank)
					require.ErrorContains(t, err, "rank 2: ", "rank %d", rank)
				}
				require.Len(t, got.byRank, 3)
			})
		}
	}
}

var lossy = map[string]func(ctx context.Context, g *pg.Group) error{
	"all_reduce": func(ctx context.Context, g *pg.Group) error {
		return g.AllReduce(ctx, colligo.Of(make([]float32, 100_000)), colligo.Sum)
	},
	"small all_reduce": func(ctx context.Context, g *pg.Group) error {
		return g.AllReduce(ctx, colligo.Of(make([]float32, 3)), colligo.Sum)
	},
	"broadcast": func(ctx context.Context, g *pg.Group) error {
		return g.Broadcast(ctx, colligo.Of(make([]float32, 100_000)), 2)
	},
	"all_gather": func(ctx context.Context, g *pg.Group) error {
		return g.AllGatherIntoTensor(ctx, colligo.Of(make([]float32, 4000)), colligo.Of(make([]float32, 1000)))
	},
	"all_to_all": func(ctx context.Context, g *pg.Group) error {
		return g.AllToAllSingle(ctx, colligo.Of(make([]float32, 4000)), colligo.Of(make([]float32, 4000)), nil, nil)
	},
	"barrier": func(ctx context.Context, g *pg.Group) error { return g.Barrier(ctx) },
}

// TestMisuse refuses arguments without harming the group.
func TestMisuse(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		ctx, x := t.Context(), colligo.Of([]float32{1, 2, 3})
		gpu := colligo.OnDevice(colligo.Device{Kind: colligo.CUDA}, 4096, 3, colligo.Float32)
		for says, err := range map[string]error{
			"root 2 of a group of 2 ranks":                         g.Broadcast(ctx, x, 2),
			"invalid tensor":                                       g.AllReduce(ctx, colligo.Tensor{}, colligo.Sum),
			"such as colligo's cuda/peer":                          g.AllReduce(ctx, gpu, colligo.Sum),
			"band of float32":                                      g.AllReduce(ctx, x, colligo.BAnd),
			"2 ranks of 3 elements need 6":                         g.AllGatherIntoTensor(ctx, x, x),
			"1 tensors for 2 ranks":                                g.AllGather(ctx, []colligo.Tensor{x}, x),
			"3 elements cannot be split evenly":                    g.AllToAllSingle(ctx, x, x, nil, []int{1, 2}),
			"2 splits of 4 elements together":                      g.AllToAllSingle(ctx, x, x, []int{1, 2}, []int{2, 2}),
			fmt.Sprintf("rank %d is this rank itself", g.Rank()):   g.Send(ctx, x, g.Rank(), 0),
			"peer 7 of a group of 2 ranks":                         g.Recv(ctx, x, 7, 0),
			"tensors of float32 and int32 in one call":             g.AllGatherIntoTensor(ctx, colligo.Of(make([]int32, 6)), x),
			"the factor of premul_sum is int32[1] cpu, it must be": g.AllReduce(ctx, x, colligo.PremulSumBy(colligo.Of([]int32{1}))),
		} {
			require.ErrorContains(t, err, says)
		}
		require.NoError(t, g.Barrier(ctx), "the group still works")
	})
}

// TestQuietMismatch has one rank gather among ranks that all-gather. The others look for no frame of the one, and find out
// when the operation stands still.
func TestQuietMismatch(t *testing.T) {
	var got errorsOf
	pgtest.Run(t, 4, func(t *testing.T, g *pg.Group) {
		start := time.Now() // of the bubble
		in := colligo.Of(make([]float32, 8))
		var err error
		if g.Rank() == 2 {
			err = g.Gather(t.Context(), nil, in, 0)
		} else {
			err = g.AllGatherIntoTensor(t.Context(), colligo.Of(make([]float32, 32)), in)
		}
		if err == nil {
			err = g.Barrier(t.Context())
		}
		got.add(g, err)
		require.Less(t, time.Since(start), 10*time.Second, "long before the timeout")
	})
	for rank, err := range got.byRank {
		require.ErrorIs(t, err, colligo.ErrMismatch, "rank %d", rank)
	}
	require.Len(t, got.byRank, 4)
}

// slowToTell is a mesh that takes its time to send why a group failed.
type slowToTell struct{ transport.Mesh }

func (m slowToTell) Notify(peer int, note []byte) error {
	if bytes.Contains(note, []byte(`"abort"`)) {
		time.Sleep(10 * time.Millisecond)
	}
	return m.Mesh.Notify(peer, note)
}

// TestToldBeforeClosing has a rank find a mismatch beside its own call, and close as soon as that returns. The others hear
// why before they hear that it is gone.
func TestToldBeforeClosing(t *testing.T) {
	o := pgtest.Options{Config: func(rank int, c *pg.Config) {
		open := c.Open
		c.Open = func(ctx context.Context, tc *transport.Config) (transport.Mesh, error) {
			m, err := open(ctx, tc)
			return slowToTell{m}, err
		}
	}}
	pgtest.RunWith(t, 4, o, func(t *testing.T, g *pg.Group) {
		in := colligo.Of(make([]float32, 8))
		if g.Rank() == 2 {
			_ = g.Gather(t.Context(), nil, in, 0)
			require.ErrorIs(t, g.Barrier(t.Context()), colligo.ErrMismatch)
			return
		}
		require.ErrorIs(t, g.AllGatherIntoTensor(t.Context(), colligo.Of(make([]float32, 32)), in), colligo.ErrMismatch)
	})
}
