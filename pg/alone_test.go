package pg_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

func alone(t testing.TB) *pg.Group {
	g, err := pg.Init(context.Background(), pg.Config{Store: store.NewHash(), Size: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// TestAlone runs everything in a group of one rank: what goes in comes out.
func TestAlone(t *testing.T) {
	g := alone(t)
	ctx := t.Context()
	require.Equal(t, "none", g.Transport())
	for _, d := range colligo.DTypes() {
		for _, op := range everyOp {
			if _, _, err := op.Kind().Check(d); err != nil {
				require.ErrorIs(t, g.AllReduce(ctx, colligo.Bytes(nil, d), op), colligo.ErrOp)
				continue
			}
			reduceAll(t, g, d, op, 9)
		}
	}
	for _, list := range lists {
		in, out := list([]int{5}), list([]int{5})
		copy(in[0], filled(0, 5, 0))
		for _, call := range []func() error{
			func() error { return g.AllGather(ctx, tensors(out), colligo.Of(in[0])) },
			func() error { return g.AllGatherIntoTensor(ctx, colligo.Of(out[0]), colligo.Of(in[0])) },
			func() error { return g.ReduceScatter(ctx, colligo.Of(out[0]), tensors(in), colligo.Avg) },
			func() error { return g.AllToAll(ctx, tensors(out), tensors(in)) },
			func() error { return g.AllToAllSingle(ctx, colligo.Of(out[0]), colligo.Of(in[0]), []int{5}, nil) },
			func() error { return g.Gather(ctx, tensors(out), colligo.Of(in[0]), 0) },
			func() error { return g.GatherV(ctx, tensors(out), colligo.Of(in[0]), []int{5}, 0) },
			func() error { return g.Scatter(ctx, colligo.Of(out[0]), tensors(in), 0) },
			func() error { return g.ScatterV(ctx, colligo.Of(out[0]), tensors(in), []int{5}, 0) },
			func() error {
				return g.ReduceScatterAsync(ctx, colligo.Of(out[0]), tensors(in), colligo.PremulSum(1)).Wait(ctx)
			},
		} {
			clear(out[0])
			require.NoError(t, call())
			require.Equal(t, filled(0, 5, 0), out[0])
			require.Equal(t, filled(0, 5, 0), in[0])
		}
		require.NoError(t, g.Broadcast(ctx, colligo.Of(in[0]), 0))
		require.Equal(t, filled(0, 5, 0), in[0])
	}
	x := spread([]float32{1, 2, 3})
	require.NoError(t, g.AllReduce(ctx, columns(x), colligo.PremulSum(3)))
	require.Equal(t, spread([]float32{3, 6, 9}), x)
	require.NoError(t, g.Barrier(ctx))
	require.ErrorContains(t, g.Send(ctx, colligo.Of(x), 0, 0), "rank 0 is this rank itself")
	_, err := g.RecvAny(ctx, colligo.Of(x), 0)
	require.ErrorContains(t, err, "a group of one rank has no peer")
	var e *colligo.OpError
	require.ErrorAs(t, err, &e)
	sub, err := g.NewGroup(ctx, []int{0})
	require.NoError(t, err)
	require.NoError(t, sub.Barrier(ctx))
	require.NoError(t, sub.Close())
	require.ErrorIs(t, sub.Barrier(ctx), colligo.ErrClosed)
}

// TestAloneDoesNotAllocate holds rule 12 of docs/architecture.md.
func TestAloneDoesNotAllocate(t *testing.T) {
	g, x, y := alone(t), colligo.Of(make([]float32, 100)), colligo.Of(make([]float32, 100))
	ctx := context.Background()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, err := range [...]error{
			g.AllReduce(ctx, x, colligo.Sum), g.AllReduce(ctx, x, colligo.PremulSum(0.5)), g.Broadcast(ctx, x, 0),
			g.AllGatherIntoTensor(ctx, y, x), g.ReduceScatterTensor(ctx, y, x, colligo.Max), g.Barrier(ctx),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	}))
}
