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
	t.Run("level=DETAIL", func(t *testing.T) {
		o := o
		o.config = func(_ int, c *pg.Config) { c.Timeout, c.Debug.Level = time.Minute, pg.DebugDetail }
		eachWith(t, 3, o, func(r *rank) { r.findsLeft(allCalls["all_reduce"], false, "all_reduce") }) // a call on a device waits for all ranks
	})
	t.Run("way=staged", func(t *testing.T) {
		o := o
		o.onlyDevices, o.noNCCL = true, true
		eachWith(t, 3, o, func(r *rank) {
			r.ctx = ways["staged"](r)
			r.findsLeft(allCalls["all_reduce"], true, "all_reduce")
		})
	})
}

// leftMessages are messages with rank 2 after it has left. A rendezvous message is longer than what is sent before its receiver comes.
var leftMessages = map[string]func(r *rank) *pg.Work{
	"recv":            func(r *rank) *pg.Work { return r.RecvAsync(r.ctx, full(r, 100, float32(0)), 2, 0) },
	"rendezvous send": func(r *rank) *pg.Work { return r.SendAsync(r.ctx, full(r, 1_000_000, float32(1)), 2, 0) },
}

// TestLeftIsFoundByMessages has rank 2 close the group in order while the others wait for a message of it, or before they do. Messages of
// before are received, also by a rank that comes for them late.
func TestLeftIsFoundByMessages(t *testing.T) {
	beside(t)
	o := options{waits: true, config: func(_ int, c *pg.Config) { c.Timeout = time.Minute }}
	for name, call := range leftMessages {
		for _, pending := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/pending=%v", name, pending), func(t *testing.T) {
				eachWith(t, 3, o, func(r *rank) { r.findsLeftByMessage(call, pending) })
				o := o
				o.onlyDevices, o.noNCCL = true, true
				t.Run("way=staged", func(t *testing.T) {
					eachWith(t, 3, o, func(r *rank) {
						r.ctx = ways["staged"](r)
						r.findsLeftByMessage(call, pending)
					})
				})
			})
		}
	}
}

// findsLeftByMessage has rank 2 close the group after three messages to each rank, and three of each.
func (r *rank) findsLeftByMessage(call func(r *rank) *pg.Work, pending bool) {
	r.summed()
	me := r.Rank()
	var got []colligo.Tensor
	trade := func(peer, times int) (works []*pg.Work) {
		for range times {
			got = append(got, full(r, 10, float32(0)))
			works = append(works, r.SendAsync(r.ctx, full(r, 10, float32(me+1)), peer, 0), r.RecvAsync(r.ctx, got[len(got)-1], peer, 0))
		}
		return works
	}
	if me == 2 {
		var works []*pg.Work
		for peer := range 2 {
			works = append(works, trade(peer, 3)...)
		}
		for _, w := range works {
			require.NoError(r.t, w.Synchronize(r.t.Context()))
		}
		if pending {
			require.NoError(r.t, r.Store().Wait(r.t.Context(), "called0", "called1"))
		}
		require.NoError(r.t, r.Close())
		return
	}
	for _, w := range trade(2, 3) {
		require.NoError(r.t, w.Synchronize(r.t.Context()))
	}
	for _, x := range got {
		require.Equal(r.t, repeat(10, float32(3)), values[float32](r, x))
	}
	r.meetOf("traded", 0, 1)
	if !pending {
		time.Sleep(time.Second)
	}
	began := time.Now()
	w := call(r)
	require.NoError(r.t, r.Store().Set(r.t.Context(), fmt.Sprint("called", me), nil))
	err := w.Synchronize(context.Background())
	require.ErrorIs(r.t, err, colligo.ErrPeerLost)
	require.ErrorContains(r.t, err, "peer closed the group")
	require.ErrorContains(r.t, err, "peer 2")
	require.Less(r.t, time.Since(began), time.Minute/2)
	r.t.Logf("rank %d after %v: %v", me, time.Since(began).Round(time.Millisecond), err)
}

// TestLastMessagesArrive has a rank send and close the group at once. Its messages are received long after.
func TestLastMessagesArrive(t *testing.T) {
	beside(t)
	o := options{waits: true, config: func(_ int, c *pg.Config) { c.Timeout = time.Minute }}
	eachWith(t, 2, o, func(r *rank) {
		r.summed()
		if r.Rank() == 1 {
			require.NoError(r.t, r.Send(r.ctx, full(r, 10, float32(1)), 0, 0))
			require.NoError(r.t, r.SendAsync(r.ctx, full(r, 10, float32(2)), 0, 0).Synchronize(r.t.Context()))
			require.NoError(r.t, r.Close())
			return
		}
		xs := []colligo.Tensor{full(r, 10, float32(0)), full(r, 10, float32(0))}
		time.Sleep(time.Second)
		for i, x := range xs {
			require.NoError(r.t, r.RecvAsync(r.ctx, x, 1, 0).Synchronize(r.t.Context()))
			require.Equal(r.t, repeat(10, float32(i+1)), values[float32](r, x))
		}
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
	r.meetOf("first", 0, 1)
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
	require.Less(r.t, time.Since(began), time.Minute/2)
	require.True(r.t, first.IsSuccess())
	require.NoError(r.t, first.Wait(r.ctx))
	r.t.Logf("rank %d after %v: %v", r.Rank(), time.Since(began).Round(time.Millisecond), err)
}
