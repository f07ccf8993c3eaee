package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// waited fails the test unless a work can be waited for and its operation is done after that.
func (r *rank) waited(w *pg.Work) {
	require.NoError(r.t, w.Wait(r.ctx))
	require.NoError(r.t, w.Synchronize(r.ctx))
}

func TestAllReduceWorkWaitGPU(t *testing.T) {
	each(t, 2, func(r *rank) {
		x := full(r, 4, float32(r.Rank()))
		r.waited(r.AllReduceAsync(r.ctx, x, colligo.Sum))
		require.Equal(r.t, repeat(4, float32(1)), values[float32](r, x))
	})
}

func TestAllGatherWorkWaitGPU(t *testing.T) {
	each(t, 2, func(r *rank) {
		outs := []colligo.Tensor{full(r, 4, float32(-1)), full(r, 4, float32(-1))}
		r.waited(r.AllGatherAsync(r.ctx, outs, full(r, 4, float32(r.Rank()))))
		for from, out := range outs {
			require.Equal(r.t, repeat(4, float32(from)), values[float32](r, out))
		}
	})
}

func TestAllGatherIntoTensorWorkWaitGPU(t *testing.T) {
	each(t, 2, func(r *rank) {
		out := full(r, 8, float32(-1))
		r.waited(r.AllGatherIntoTensorAsync(r.ctx, out, full(r, 4, float32(r.Rank()))))
		require.Equal(r.t, []float32{0, 0, 0, 0, 1, 1, 1, 1}, values[float32](r, out))
	})
}

func TestReduceScatterWorkWaitGPU(t *testing.T) {
	each(t, 2, func(r *rank) {
		out := full(r, 4, float32(-1))
		ins := []colligo.Tensor{full(r, 4, float32(r.Rank())), full(r, 4, float32(10*r.Rank()))}
		r.waited(r.ReduceScatterAsync(r.ctx, out, ins, colligo.Sum))
		require.Equal(r.t, repeat(4, []float32{1, 10}[r.Rank()]), values[float32](r, out))
	})
}

func TestReduceScatterTensorWorkWaitGPU(t *testing.T) {
	each(t, 2, func(r *rank) {
		out := full(r, 8, float32(-1))
		r.waited(r.ReduceScatterTensorAsync(r.ctx, out, full(r, 16, float32(r.Rank())), colligo.Sum))
		require.Equal(r.t, repeat(8, float32(1)), values[float32](r, out))
	})
}

func TestBroadcastWorkWaitGPU(t *testing.T) {
	each(t, 2, func(r *rank) {
		x := full(r, 4, float32(r.Rank()+5))
		r.waited(r.BroadcastAsync(r.ctx, x, 0))
		require.Equal(r.t, repeat(4, float32(5)), values[float32](r, x))
	})
}

func TestScatterWorkWaitGPU(t *testing.T) {
	each(t, 2, func(r *rank) {
		out := full(r, 4, float32(-1))
		var ins []colligo.Tensor
		if r.Rank() == 0 {
			ins = []colligo.Tensor{full(r, 4, float32(3)), full(r, 4, float32(4))}
		}
		r.waited(r.ScatterAsync(r.ctx, out, ins, 0))
		require.Equal(r.t, repeat(4, float32(3+r.Rank())), values[float32](r, out))
	})
}

func TestAllToAllWorkWaitGPU(t *testing.T) {
	each(t, 2, func(r *rank) {
		outs := []colligo.Tensor{full(r, 4, float32(-1)), full(r, 4, float32(-1))}
		ins := []colligo.Tensor{full(r, 4, float32(10*r.Rank())), full(r, 4, float32(10*r.Rank()+1))}
		r.waited(r.AllToAllAsync(r.ctx, outs, ins))
		for from, out := range outs {
			require.Equal(r.t, repeat(4, float32(10*from+r.Rank())), values[float32](r, out))
		}
	})
}

// TestConsecutiveCommWorkWaitGPU starts operations that depend on one another's results before the first is waited for.
func TestConsecutiveCommWorkWaitGPU(t *testing.T) {
	each(t, 2, func(r *rank) {
		x := full(r, 4, float32(r.Rank()+1))
		all := full(r, 8, float32(-1))
		works := []*pg.Work{
			r.AllReduceAsync(r.ctx, x, colligo.Sum),
			r.AllReduceAsync(r.ctx, x, colligo.Sum),
			r.AllGatherIntoTensorAsync(r.ctx, all, x),
			r.AllReduceAsync(r.ctx, all, colligo.Max),
		}
		for _, w := range works {
			r.waited(w)
		}
		require.Equal(r.t, repeat(8, float32(6)), values[float32](r, all))
	})
}

// TestReduceScatterBaseK reduces parts of two elements.
func TestReduceScatterBaseK(t *testing.T) {
	each(t, 2, func(r *rank) {
		out := full(r, 2, int64(0))
		require.NoError(r.t, r.ReduceScatterTensor(r.ctx, out, tensor(r, int64(0), 1, 2, 3), colligo.Sum))
		require.Equal(r.t, [][]int64{{0, 2}, {4, 6}}[r.Rank()], values[int64](r, out))
	})
}
