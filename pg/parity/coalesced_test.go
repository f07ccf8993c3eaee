package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// counting returns tensors of 60 to 64 elements that hold rank + 1 + i.
func counting(r *rank) (ts []colligo.Tensor) {
	for i := range 5 {
		ts = append(ts, full(r, 60+i, float32(r.Rank()+1+i)))
	}
	return ts
}

// counted expects the sums of counting over all ranks.
func counted(r *rank, ts []colligo.Tensor) {
	for i, x := range ts {
		sum := 0
		for rank := range r.Size() {
			sum += rank + 1 + i
		}
		require.Equal(r.t, repeat(60+i, float32(sum)), values[float32](r, x))
	}
}

func TestAllReduceCoalescedNCCL(t *testing.T) {
	each(t, 2, func(r *rank) {
		ts := counting(r)
		require.NoError(r.t, r.AllReduceCoalesced(r.ctx, ts, colligo.Sum))
		counted(r, ts)
	})
}

func TestAllReduceCoalesced(t *testing.T) {
	each(t, 1, func(r *rank) {
		ts := counting(r)
		require.NoError(r.t, r.AllReduceCoalesced(r.ctx, ts, colligo.Sum))
		counted(r, ts)
	})
}

// TestAllReduceCoalescedManagerNCCL coalesces single calls into one work.
func TestAllReduceCoalescedManagerNCCL(t *testing.T) {
	each(t, 2, func(r *rank) {
		ts := counting(r)
		w := r.CoalesceAsync(r.ctx, func(b *pg.Batch) error {
			for _, x := range ts {
				b.AllReduce(x, colligo.Sum)
			}
			return nil
		})
		r.waited(w)
		counted(r, ts)
	})
}

// TestMergedBlocks has all media record one operation for a block of equal calls, and hooks hear of one.
func TestMergedBlocks(t *testing.T) {
	type call func(r *rank, b *pg.Batch, n int)
	for name, c := range map[string]call{
		"nccl:allreduce_coalesced": func(r *rank, b *pg.Batch, n int) { b.AllReduce(full(r, n, float32(1)), colligo.Sum) },
		"nccl:broadcast":           func(r *rank, b *pg.Batch, n int) { b.Broadcast(full(r, n, float32(1)), 1) },
		"nccl:all_gather_into_tensor_coalesced": func(r *rank, b *pg.Batch, n int) {
			b.AllGatherIntoTensor(full(r, 2*n, float32(0)), full(r, n, float32(1)))
		},
		"nccl:reduce_scatter_tensor_coalesced": func(r *rank, b *pg.Batch, n int) {
			b.ReduceScatterTensor(full(r, n, float32(0)), full(r, 2*n, float32(1)), colligo.Sum)
		},
	} {
		t.Run(name, func(t *testing.T) {
			timings(t, 2, options{}, func(r *rank, _ bool) {
				heard := r.hear()
				calls := func(b *pg.Batch) error {
					for n := 3; n < 6; n++ {
						c(r, b, n)
					}
					return nil
				}
				require.NoError(r.t, r.Coalesce(r.ctx, calls))
				r.waited(r.CoalesceAsync(r.ctx, calls))
				require.Len(r.t, heard(), 2)
				es := r.entries()
				require.Len(r.t, es, 2)
				for i, e := range es {
					require.Equal(r.t, []any{name, uint64(i + 1), flight.Completed}, []any{e.Name, e.Seq, e.State})
					require.Len(r.t, e.InSizes, 3)
					require.Len(r.t, e.OutSizes, 3)
				}
				require.Equal(r.t, flight.Status{LastEnqueued: 2, LastStarted: 2, LastCompleted: 2}, r.status())
			})
		})
	}
}

// TestAllReduceCoalescedNCCLFloat8Errors reduces float8, which the suite that this follows has refused.
func TestAllReduceCoalescedNCCLFloat8Errors(t *testing.T) {
	each(t, 2, func(r *rank) {
		var ts []colligo.Tensor
		for i := range 5 {
			ts = append(ts, float8(r, colligo.Float8E4M3FN, repeat(60+i, colligo.Float8E4M3FNFromFloat32(float32(r.Rank()+1)))))
		}
		require.NoError(r.t, r.AllReduceCoalesced(r.ctx, ts, colligo.Sum))
		for i, x := range ts {
			require.Equal(r.t, repeat(60+i, colligo.Float8E4M3FNFromFloat32(3)), values[uint8](r, x))
		}
	})
}

func TestReduceScatterTensorCoalesced(t *testing.T) {
	each(t, 2, func(r *rank) {
		outs := []colligo.Tensor{full(r, 2, float32(0)), full(r, 2, float32(0))}
		require.NoError(r.t, r.Coalesce(r.ctx, func(b *pg.Batch) error {
			for i := range outs {
				b.ReduceScatterTensor(outs[i], full(r, 4, float32(i+1)), colligo.Sum)
			}
			return nil
		}))
		for i, out := range outs {
			require.Equal(r.t, repeat(2, float32(2*(i+1))), values[float32](r, out))
		}
	})
}

// TestReduceScatterBaseKFloat8Errors reduces float8, which the suite that this follows has refused.
func TestReduceScatterBaseKFloat8Errors(t *testing.T) {
	each(t, 2, func(r *rank) {
		out := float8(r, colligo.Float8E4M3FN, make([]byte, 2))
		in := float8(r, colligo.Float8E4M3FN, repeat(4, colligo.Float8E4M3FNFromFloat32(1.5)))
		require.NoError(r.t, r.ReduceScatterTensor(r.ctx, out, in, colligo.Sum))
		require.Equal(r.t, repeat(2, colligo.Float8E4M3FNFromFloat32(3)), values[uint8](r, out))
	})
}

// TestReduceScatterTensorCoalescedFloat8Errors is the same in a batch.
func TestReduceScatterTensorCoalescedFloat8Errors(t *testing.T) {
	each(t, 2, func(r *rank) {
		var outs []colligo.Tensor
		require.NoError(r.t, r.Coalesce(r.ctx, func(b *pg.Batch) error {
			for range 2 {
				out := float8(r, colligo.Float8E5M2, make([]byte, 2))
				outs = append(outs, out)
				b.ReduceScatterTensor(out, float8(r, colligo.Float8E5M2, repeat(4, colligo.Float8E5M2FromFloat32(1))), colligo.Sum)
			}
			return nil
		}))
		for _, out := range outs {
			require.Equal(r.t, repeat(2, colligo.Float8E5M2FromFloat32(2)), values[uint8](r, out))
		}
	})
}

// TestBroadcastCoalescedNCCL broadcasts tensors of mixed element types in buffers of 256 bytes, from each rank.
func TestBroadcastCoalescedNCCL(t *testing.T) {
	each(t, 2, func(r *rank) {
		for root := range 2 {
			var ts []colligo.Tensor
			var want [][]float64
			for k, d := range []colligo.DType{colligo.Float16, colligo.Float32, colligo.Float16, colligo.Float64, colligo.Float16, colligo.Float32} {
				for c := range 5 {
					v := make([]float64, 12)
					for i := range v {
						v[i] = float64(12*c + i + k)
					}
					want = append(want, v)
					if r.Rank() != root {
						v = make([]float64, 12)
					}
					ts = append(ts, typed(r, d, v))
				}
			}
			require.NoError(r.t, r.BroadcastCoalesced(r.ctx, ts, 256, root))
			for i := range ts {
				require.Equal(r.t, want[i], untyped(r, ts[i]))
			}
		}
	})
}

// typed returns a tensor of an element type.
func typed(r *rank, d colligo.DType, v []float64) colligo.Tensor {
	var t colligo.Tensor
	switch d {
	case colligo.Float64:
		t = colligo.Of(v)
	case colligo.Float32:
		s := make([]float32, len(v))
		for i := range v {
			s[i] = float32(v[i])
		}
		t = colligo.Of(s)
	default:
		s := make([]uint16, len(v))
		for i := range v {
			s[i] = colligo.Float16FromFloat32(float32(v[i]))
		}
		t = colligo.FromBits(s, colligo.Float16)
	}
	if r.gpu == nil {
		return t
	}
	return r.onDevice(t)
}

// untyped returns the elements of a tensor that typed made.
func untyped(r *rank, t colligo.Tensor) []float64 {
	out := make([]float64, t.Len())
	for i := range out {
		switch t.DType() {
		case colligo.Float64:
			return values[float64](r, t)
		case colligo.Float32:
			out[i] = float64(values[float32](r, t)[i])
		default:
			out[i] = float64(colligo.Float16ToFloat32(values[uint16](r, t)[i]))
		}
	}
	return out
}
