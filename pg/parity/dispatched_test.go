package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// TestCollectives calls every collective in a group of one rank.
func TestCollectives(t *testing.T) {
	each(t, 1, func(r *rank) {
		one := func() colligo.Tensor { return full(r, 10, float32(7)) }
		list := func() []colligo.Tensor { return []colligo.Tensor{one()} }
		zero := full(r, 10, float32(0))
		outs := []colligo.Tensor{zero}
		for name, call := range map[string]func() error{
			"all_reduce":             func() error { return r.AllReduce(r.ctx, one(), colligo.Sum) },
			"reduce":                 func() error { return r.Reduce(r.ctx, one(), 0, colligo.Sum) },
			"broadcast":              func() error { return r.Broadcast(r.ctx, one(), 0) },
			"all_gather":             func() error { return r.AllGather(r.ctx, outs, one()) },
			"all_gather_into_tensor": func() error { return r.AllGatherIntoTensor(r.ctx, zero, one()) },
			"gather":                 func() error { return r.Gather(r.ctx, outs, one(), 0) },
			"scatter":                func() error { return r.Scatter(r.ctx, zero, list(), 0) },
			"reduce_scatter":         func() error { return r.ReduceScatter(r.ctx, zero, list(), colligo.Sum) },
			"reduce_scatter_tensor":  func() error { return r.ReduceScatterTensor(r.ctx, zero, one(), colligo.Sum) },
			"all_to_all":             func() error { return r.AllToAll(r.ctx, outs, list()) },
			"barrier":                func() error { return r.Barrier(r.ctx) },
		} {
			require.NoError(r.t, call(), name)
		}
		require.Equal(r.t, repeat(10, float32(7)), values[float32](r, zero))
	})
}

func TestAllToAllSingle(t *testing.T) {
	each(t, 1, func(r *rank) {
		out := full(r, 10, float32(0))
		require.NoError(r.t, r.AllToAllSingle(r.ctx, out, full(r, 10, float32(1)), nil, nil))
		require.Equal(r.t, repeat(10, float32(1)), values[float32](r, out))
	})
}

func TestAllGatherBase(t *testing.T) {
	each(t, 1, func(r *rank) {
		out := full(r, 100, float32(0))
		require.NoError(r.t, r.AllGatherIntoTensor(r.ctx, out, full(r, 100, float32(1))))
		require.Equal(r.t, repeat(100, float32(1)), values[float32](r, out))
	})
}

// TestAllGatherFloat8 moves float8 as it is.
func TestAllGatherFloat8(t *testing.T) {
	for _, d := range []colligo.DType{colligo.Float8E4M3FN, colligo.Float8E5M2} {
		t.Run(d.String(), func(t *testing.T) {
			each(t, 2, func(r *rank) {
				in := float8(r, d, repeat(160, byte(0x38+r.Rank())))
				out := float8(r, d, make([]byte, 320))
				require.NoError(r.t, r.AllGatherIntoTensor(r.ctx, out, in))
				want := append(repeat(160, byte(0x38)), repeat(160, byte(0x39))...)
				require.Equal(r.t, want, values[byte](r, out))
			})
		})
	}
}

// float8 returns a tensor of bit patterns.
func float8(r *rank, d colligo.DType, bits []byte) colligo.Tensor {
	t := colligo.FromBits(bits, d)
	if r.gpu == nil {
		return t
	}
	return r.onDevice(t)
}
