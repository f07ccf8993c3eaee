package parity

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// TestDefaultStoreTimeoutNCCL gives the limit of the store's calls to the store that Init opens.
func TestDefaultStoreTimeoutNCCL(t *testing.T) {
	runs(t, byItself)
	for limit, want := range map[time.Duration]time.Duration{0: pg.DefaultStoreTimeout, 200 * time.Millisecond: 200 * time.Millisecond} {
		g, err := pg.Init(t.Context(), pg.Config{Init: "file://" + t.TempDir() + "/store?rank=0&world_size=1", StoreTimeout: limit})
		require.NoError(t, err)
		require.Equal(t, want, g.Store().Timeout())
		if limit > 0 {
			began := time.Now()
			_, err := g.Store().Get(t.Context(), "nothing")
			require.ErrorIs(t, err, store.ErrTimeout)
			require.Less(t, time.Since(began), 30*time.Second)
		}
		require.NoError(t, g.Close())
	}
}

// TestNCCLBarrier runs a collective in the default group, in a group of both ranks, and in groups of one.
func TestNCCLBarrier(t *testing.T) {
	each(t, 2, func(r *rank) {
		sum := func(s *rank, want float32) {
			x := full(r, 10, float32(r.Rank()+1))
			require.NoError(r.t, s.AllReduce(r.ctx, x, colligo.Sum))
			require.Equal(r.t, repeat(10, want), values[float32](r, x))
			require.NoError(r.t, s.Barrier(r.ctx))
		}
		sum(r, 3)
		for _, ranks := range [][]int{{0, 1}, {0}, {1}} {
			g, err := r.NewGroup(r.ctx, ranks)
			require.NoError(r.t, err)
			if g.Rank() == colligo.NoRank {
				continue
			}
			s := r.in(g)
			if len(ranks) == 2 {
				sum(s, 3)
			} else {
				sum(s, float32(r.Rank()+1))
			}
			s.leave()
		}
	})
}

// TestTensorDTypeMismatch mixes element types in the arguments of one call.
func TestTensorDTypeMismatch(t *testing.T) {
	each(t, 2, func(r *rank) {
		x, y := full(r, 2, float32(1)), full(r, 2, float64(1))
		for name, err := range map[string]error{
			"all_gather":            r.AllGather(r.ctx, []colligo.Tensor{x, y}, x),
			"all_gather outputs":    r.AllGather(r.ctx, []colligo.Tensor{y, y}, x),
			"reduce_scatter":        r.ReduceScatter(r.ctx, x, []colligo.Tensor{x, y}, colligo.Sum),
			"reduce_scatter output": r.ReduceScatter(r.ctx, y, []colligo.Tensor{x, x}, colligo.Sum),
			"all_to_all":            r.AllToAll(r.ctx, []colligo.Tensor{x, x}, []colligo.Tensor{y, y}),
			"all_to_all_single":     r.AllToAllSingle(r.ctx, x, y, nil, nil),
		} {
			require.ErrorContains(r.t, err, "tensors of float", name)
		}
		require.NoError(r.t, r.Err())
		require.NoError(r.t, r.Barrier(r.ctx), "a call that was refused has no place in the order")
	})
}

// TestTensorDTypeComplex takes complex tensors through collectives that move and collectives that add, and lists that mix them with
// tensors of their real part.
func TestTensorDTypeComplex(t *testing.T) {
	each(t, 2, func(r *rank) {
		x := tensor(r, complex64(complex(1, float32(r.Rank()))), complex64(complex(float32(r.Rank()), 2)))
		out := full(r, 4, complex64(0))
		require.NoError(r.t, r.AllGatherIntoTensor(r.ctx, out, x))
		require.Equal(r.t, []complex64{1, 2i, 1 + 1i, 1 + 2i}, values[complex64](r, out))
		complexes, reals := full(r, 2, complex64(0)), full(r, 4, float32(0))
		floats := x.View(colligo.Float32)
		for _, in := range []colligo.Tensor{x, floats} {
			for _, outs := range [][]colligo.Tensor{{reals, full(r, 4, float32(0))}, {reals, complexes}, {full(r, 2, complex64(0)), complexes}} {
				require.NoError(r.t, r.AllGather(r.ctx, outs, in))
				require.Equal(r.t, []float32{1, 1, 1, 2}, values[float32](r, outs[1].View(colligo.Float32)))
				require.Equal(r.t, []float32{1, 0, 0, 2}, values[float32](r, outs[0].View(colligo.Float32)))
			}
		}
		require.NoError(r.t, r.AllReduce(r.ctx, x, colligo.Sum))
		require.Equal(r.t, []complex64{2 + 1i, 1 + 4i}, values[complex64](r, x))
		err := r.AllReduce(r.ctx, x, colligo.Max)
		var op *colligo.OpError
		require.True(r.t, errors.As(err, &op), "%v", err)
		require.ErrorContains(r.t, err, "max")
		require.ErrorContains(r.t, r.AllReduceCoalesced(r.ctx, []colligo.Tensor{x, reals}, colligo.Max), "max")
		require.NoError(r.t, r.AllReduceCoalesced(r.ctx, []colligo.Tensor{x, reals}, colligo.Sum))
		require.Equal(r.t, []complex64{4 + 2i, 2 + 8i}, values[complex64](r, x))
	})
}
