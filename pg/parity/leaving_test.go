package parity

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// allCalls are asynchronous collectives in which every rank needs something of every other.
var allCalls = map[string]func(r *rank) *pg.Work{
	"all_reduce": func(r *rank) *pg.Work { return r.AllReduceAsync(r.ctx, full(r, 100, float32(1)), colligo.Sum) },
	"all_gather": func(r *rank) *pg.Work {
		return r.AllGatherIntoTensorAsync(r.ctx, full(r, 100*r.Size(), float32(0)), full(r, 100, float32(1)))
	},
	"all_to_all": func(r *rank) *pg.Work {
		return r.AllToAllSingleAsync(r.ctx, full(r, 9, float32(0)), full(r, 9, float32(1)), nil, nil)
	},
}

// TestLeftIsFoundAtOnce has one rank close the group in order, while the others are in a collective that it never calls, or before
// they call it. On every medium they hear soon who has left, and the collective before ends well.
func TestLeftIsFoundAtOnce(t *testing.T) {
	beside(t)
	o := options{waits: true, config: func(_ int, c *pg.Config) { c.Timeout = time.Minute }}
	for name, call := range allCalls {
		for _, pending := range []bool{true, false} {
			t.Run(fmt.Sprintf("coll=%s/pending=%v", name, pending), func(t *testing.T) {
				eachWith(t, 3, o, func(r *rank) { r.findsLeft(call, pending, name) })
				t.Run("tcp", func(t *testing.T) {
					pgtest.RunWith(t, 3, pgtest.Options{Transport: "tcp", Config: o.config}, func(t *testing.T, g *pg.Group) {
						(&rank{Group: g, t: t, ctx: t.Context()}).findsLeft(call, pending, name)
					})
				})
			})
		}
	}
	t.Run("way=staged", func(t *testing.T) {
		o := o
		o.onlyDevices, o.noNCCL = true, true
		eachWith(t, 3, o, func(r *rank) {
			r.ctx = ways["staged"](r)
			r.findsLeft(allCalls["all_reduce"], true, "all_reduce")
		})
	})
}

// findsLeft has rank 2 close the group between two collectives.
func (r *rank) findsLeft(call func(r *rank) *pg.Work, pending bool, name string) {
	first := call(r)
	require.NoError(r.t, first.Synchronize(r.ctx))
	if r.Rank() == 2 {
		if pending {
			require.NoError(r.t, r.Store().Wait(r.t.Context(), "called0", "called1"))
		}
		require.NoError(r.t, r.Close())
		return
	}
	if !pending {
		time.Sleep(time.Second)
	}
	began := time.Now()
	second := call(r)
	require.NoError(r.t, r.Store().Set(r.t.Context(), fmt.Sprint("called", r.Rank()), nil))
	err := second.Synchronize(context.Background())
	if err == nil {
		err = second.Err()
	}
	require.ErrorIs(r.t, err, colligo.ErrPeerLost)
	require.ErrorContains(r.t, err, "peer closed the group")
	require.ErrorContains(r.t, err, fmt.Sprintf("%s #%d", name, first.Seq()+1))
	require.ErrorContains(r.t, err, "peer 2")
	require.Less(r.t, time.Since(began), 10*time.Second)
	require.True(r.t, first.IsSuccess())
	require.NoError(r.t, first.Wait(r.ctx))
	r.t.Logf("rank %d after %v: %v", r.Rank(), time.Since(began).Round(time.Millisecond), err)
}
