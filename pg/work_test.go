package pg_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestLifeOfWork asks a work everything while it is pending and when it is done.
func TestLifeOfWork(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		x := colligo.Of(filled(g.Rank(), 10, 0))
		if g.Rank() == 1 {
			time.Sleep(5 * time.Second)
		}
		w := g.AllReduceAsync(t.Context(), x, colligo.Sum)
		require.Equal(t, []any{uint64(1), pg.OpAllReduce, "all_reduce 1 of group 0"}, []any{w.Seq(), w.OpType(), w.String()})
		if g.Rank() == 0 {
			time.Sleep(time.Second)
			require.False(t, w.IsCompleted())
			require.False(t, w.IsSuccess())
			require.NoError(t, w.Err())
			_, err := w.Result()
			require.EqualError(t, err, "all_reduce 1 of group 0: the operation is pending")
			_, err = w.Duration()
			require.ErrorContains(t, err, "the operation is pending")
			require.Equal(t, 1, g.Pending())
		}
		require.NoError(t, w.Wait(t.Context()))
		require.True(t, w.IsCompleted())
		require.True(t, w.IsSuccess())
		out, err := w.Result()
		require.NoError(t, err)
		require.Equal(t, []colligo.Tensor{x}, out)
		took, err := w.Duration()
		require.NoError(t, err)
		if g.Rank() == 0 {
			require.GreaterOrEqual(t, took, 4*time.Second)
		}
		require.Less(t, took, 6*time.Second)
	})
}

// TestResults returns the tensors of the call, whatever its form.
func TestResults(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		ctx, x, y, list := t.Context(), six(), twelve(), sixes()
		wide := spread([]float32{1, 2, 3})
		peer := 1 - g.Rank()
		for i, c := range []struct {
			w    *pg.Work
			want []colligo.Tensor
		}{
			{g.BroadcastAsync(ctx, x, 0), []colligo.Tensor{x}},
			{g.ReduceAsync(ctx, x, 0, colligo.Sum), []colligo.Tensor{x}},
			{g.AllGatherAsync(ctx, list, x), list},
			{g.AllGatherIntoTensorAsync(ctx, y, x), []colligo.Tensor{y}},
			{g.ReduceScatterAsync(ctx, x, list, colligo.Sum), []colligo.Tensor{x}},
			{g.AllToAllAsync(ctx, list, sixes()), list},
			{g.AllReduceAsync(ctx, columns(wide), colligo.Sum), []colligo.Tensor{columns(wide)}},
			{g.SendAsync(ctx, x, peer, 0), []colligo.Tensor{x}},
			{g.RecvAsync(ctx, y.Slice(0, 6), peer, 0), []colligo.Tensor{y.Slice(0, 6)}},
			{g.BarrierAsync(ctx), nil},
		} {
			require.NoError(t, c.w.Wait(ctx))
			got, err := c.w.Result()
			require.NoError(t, err)
			require.Equal(t, c.want, got, "work %d", i)
		}
		one, err := g.NewGroup(ctx, []int{0})
		require.NoError(t, err)
		if g.Rank() == 0 {
			defer func() { require.NoError(t, one.Close()) }()
			got, err := one.AllReduceAsync(ctx, x, colligo.Sum).Result()
			require.NoError(t, err)
			require.Equal(t, []colligo.Tensor{x}, got)
		}
	})
}

// TestFailedWork has the reason of the group's failure, and no result.
func TestFailedWork(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		w := g.AllReduceAsync(t.Context(), colligo.Of(make([]int32, 10+g.Rank())), colligo.Sum)
		behind := g.BarrierAsync(t.Context())
		require.ErrorIs(t, w.Wait(t.Context()), colligo.ErrMismatch)
		require.ErrorIs(t, behind.Wait(t.Context()), colligo.ErrMismatch)
		for _, w := range []*pg.Work{w, behind, g.BarrierAsync(t.Context())} {
			require.True(t, w.IsCompleted())
			require.False(t, w.IsSuccess())
			_, err := w.Result()
			require.ErrorIs(t, err, colligo.ErrMismatch)
		}
		require.Zero(t, g.BarrierAsync(t.Context()).Seq())
		require.Equal(t, pg.OpBarrier, g.BarrierAsync(t.Context()).OpType())
		wrong := g.BroadcastAsync(t.Context(), colligo.Of([]int32{1}), 2)
		require.ErrorContains(t, wrong.Err(), "root 2 of a group of 2 ranks")
		require.Equal(t, pg.OpBroadcast, wrong.OpType())
	})
}

// TestThen chains callbacks: each sees what came before, its error travels, and it may use the group.
func TestThen(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		x := []float32{1}
		why := errors.New("not this")
		w := g.AllReduceAsync(t.Context(), colligo.Of(x), colligo.Sum)
		half := w.Then(func(w *pg.Work) error {
			x[0] /= 2
			return w.Err()
		})
		again := half.Then(func(w *pg.Work) error {
			return errors.Join(w.Err(), g.AllReduce(t.Context(), colligo.Of(x), colligo.Sum))
		})
		require.NoError(t, again.Wait(t.Context()))
		require.Equal(t, []float32{2}, x)
		require.Equal(t, []any{uint64(1), pg.OpAllReduce}, []any{again.Seq(), again.OpType()})
		got, err := again.Result()
		require.NoError(t, err)
		require.Equal(t, []colligo.Tensor{colligo.Of(x)}, got)

		calls := 0
		failed := again.Then(func(*pg.Work) error { return why })
		last := failed.Then(func(w *pg.Work) error {
			calls++
			return w.Err()
		})
		require.ErrorIs(t, last.Wait(t.Context()), why)
		require.Equal(t, 1, calls, "a callback is called after a failure too")
		require.True(t, failed.IsCompleted())
		require.NoError(t, last.Then(func(*pg.Work) error { return nil }).Wait(t.Context()), "and may end it")
		require.NoError(t, g.Err(), "a callback's error is not the group's")
	})
}

// TestThenOfFailed calls back when the group fails.
func TestThenOfFailed(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Second)
			return
		}
		w := g.RecvAsync(t.Context(), colligo.Of([]int32{1}), 1, 0).Then(func(w *pg.Work) error { return w.Err() })
		require.ErrorIs(t, w.Wait(t.Context()), colligo.ErrPeerLost)
	})
}

// TestSourceOfThen passes on which rank a message came from.
func TestSourceOfThen(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			require.NoError(t, g.Send(t.Context(), colligo.Of([]int32{1}), 0, 3))
			return
		}
		w := g.RecvAnyAsync(t.Context(), colligo.Of([]int32{1}), 3)
		require.Equal(t, pg.OpRecvAnySource, w.OpType())
		require.Equal(t, 1, w.Then((*pg.Work).Err).Source())
		require.Equal(t, pg.OpRecvAnySource, w.OpType())
		require.Equal(t, "nccl:recv 0<--1", entries(g)[0].Name)
	})
}
