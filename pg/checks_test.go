package pg_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// f32 is n elements, list k tensors of them.
func f32(n int) colligo.Tensor { return colligo.Of(make([]float32, n)) }

func list(k, n int) []colligo.Tensor { return tensors(parts(k, n)) }

// refused is a call of rank 0 of two whose arguments are wrong, and what the error says. Every check that c10d's front end
// makes of arguments has a line, and what c10d leaves to its backends too. Where the two differ a comment tells.
type refused struct {
	call string
	says string
	do   func(ctx context.Context, g *pg.Group) error
}

var gpu = colligo.Device{Kind: colligo.CUDA}

var shared = make([]float32, 20)

var reductions = []refused{
	{"no tensor", "invalid tensor", func(ctx context.Context, g *pg.Group) error {
		return g.AllReduce(ctx, colligo.Tensor{}, colligo.Sum)
	}},
	{"avg of bool", "reduce operation not defined", func(ctx context.Context, g *pg.Group) error {
		return g.AllReduce(ctx, colligo.Of([]bool{true}), colligo.Avg)
	}},
	{"premul_sum of bool", "reduce operation not defined", func(ctx context.Context, g *pg.Group) error {
		return g.ReduceScatterTensor(ctx, colligo.Of([]bool{true}), colligo.Of([]bool{true, true}), colligo.PremulSum(2))
	}},
	{"premul_sum of integers", "reduce operation not defined", func(ctx context.Context, g *pg.Group) error {
		return g.Reduce(ctx, colligo.Of([]int32{1}), 0, colligo.PremulSum(2))
	}},
	{"premul_sum by two factors", "it must be one float32 element on the CPU", func(ctx context.Context, g *pg.Group) error {
		return g.AllReduce(ctx, f32(1), colligo.PremulSumBy(f32(2)))
	}},
	{"premul_sum by another type", "it must be one float32 element on the CPU", func(ctx context.Context, g *pg.Group) error {
		return g.AllReduce(ctx, f32(1), colligo.PremulSumBy(colligo.Of([]float64{2})))
	}},
	{"max of complex", "reduce operation not defined", func(ctx context.Context, g *pg.Group) error {
		return g.AllReduce(ctx, colligo.Of([]complex64{1}), colligo.Max)
	}},
	{"min of complex", "reduce operation not defined", func(ctx context.Context, g *pg.Group) error {
		return g.AllReduceCoalesced(ctx, []colligo.Tensor{colligo.Of([]complex128{1})}, colligo.Min)
	}},
	{"prod of complex", "reduce operation not defined", func(ctx context.Context, g *pg.Group) error {
		return g.Reduce(ctx, colligo.Of([]complex64{1}), 0, colligo.Prod)
	}},
	{"bitwise of floats", "reduce operation not defined", func(ctx context.Context, g *pg.Group) error {
		return g.AllReduce(ctx, f32(1), colligo.BXor)
	}},
	{"reduce_scatter of other lengths", "the output has 3 elements, input 0 has 4", func(ctx context.Context, g *pg.Group) error {
		return g.ReduceScatter(ctx, f32(3), list(2, 4), colligo.Sum)
	}},
	{"reduce_scatter of too few", "1 tensors for 2 ranks", func(ctx context.Context, g *pg.Group) error {
		return g.ReduceScatter(ctx, f32(3), list(1, 3), colligo.Sum)
	}},
	{"reduce_scatter of two types", "tensors of float32 and float64 in one call", func(ctx context.Context, g *pg.Group) error {
		return g.ReduceScatter(ctx, f32(1), []colligo.Tensor{f32(1), colligo.Of([]float64{1})}, colligo.Sum)
	}},
	{"reduce_scatter_tensor of another length", "the input has 5 elements, 2 ranks of 3 elements need 6", func(ctx context.Context, g *pg.Group) error {
		return g.ReduceScatterTensor(ctx, f32(3), f32(5), colligo.Sum)
	}},
	{"reduce_scatter_tensor into the other's part", "share memory", func(ctx context.Context, g *pg.Group) error {
		x := colligo.Of(shared)
		return g.ReduceScatterTensor(ctx, x.Slice(10, 20), x, colligo.Sum)
	}},
	{"all_reduce_coalesced of nothing", "the list of tensors is empty", func(ctx context.Context, g *pg.Group) error {
		return g.AllReduceCoalesced(ctx, nil, colligo.Sum)
	}},
	{"all_reduce_coalesced of two types", "tensors of float32 and float64 in one call", func(ctx context.Context, g *pg.Group) error {
		return g.AllReduceCoalesced(ctx, []colligo.Tensor{f32(1), colligo.Of([]float64{1})}, colligo.Sum)
	}},
	{"reduce_scatter_tensor_coalesced of other lists", "2 outputs for 1 inputs", func(ctx context.Context, g *pg.Group) error {
		return g.ReduceScatterTensorCoalesced(ctx, list(2, 1), list(1, 2), colligo.Sum)
	}},
}

var moves = []refused{
	{"all_gather into nothing", "0 tensors for 2 ranks", func(ctx context.Context, g *pg.Group) error {
		return g.AllGather(ctx, nil, f32(1))
	}},
	{"all_gather into another type", "tensors of float32 and int32 in one call", func(ctx context.Context, g *pg.Group) error {
		return g.AllGather(ctx, []colligo.Tensor{f32(1), colligo.Of([]int32{1})}, f32(1))
	}},
	{"all_gather of another length", "the input has 2 elements, output 0 has 1", func(ctx context.Context, g *pg.Group) error {
		return g.AllGather(ctx, list(2, 1), f32(2))
	}},
	{"all_gather_into_tensor of another length", "the output has 3 elements, 2 ranks of 2 elements need 4", func(ctx context.Context, g *pg.Group) error {
		return g.AllGatherIntoTensor(ctx, f32(3), f32(2))
	}},
	{"all_gather_into_tensor of another type", "tensors of int64 and float32 in one call", func(ctx context.Context, g *pg.Group) error {
		return g.AllGatherIntoTensor(ctx, f32(2), colligo.Of([]int64{1}))
	}},
	{"all_gather_into_tensor from the other's part", "share memory", func(ctx context.Context, g *pg.Group) error {
		x := colligo.Of(shared)
		return g.AllGatherIntoTensor(ctx, x, x.Slice(10, 20))
	}},
	{"all_gather_into_tensor coalesced, nothing", "the list of tensors is empty", func(ctx context.Context, g *pg.Group) error {
		return g.AllGatherIntoTensorCoalesced(ctx, nil, nil)
	}},
	{"all_gather_coalesced, a list too short", "operation 2 of 2 in a block: 1 tensors for 2 ranks", func(ctx context.Context, g *pg.Group) error {
		return g.AllGatherCoalesced(ctx, [][]colligo.Tensor{list(2, 1), list(1, 1)}, list(2, 1))
	}},
	{"broadcast from no rank", "root 2 of a group of 2 ranks", func(ctx context.Context, g *pg.Group) error {
		return g.Broadcast(ctx, f32(1), 2)
	}},
	{"broadcast_coalesced in negative buckets", "buckets of -1 bytes", func(ctx context.Context, g *pg.Group) error {
		return g.BroadcastCoalesced(ctx, list(1, 1), -1, 0)
	}},
	{"gather to no rank", "root -1 of a group of 2 ranks", func(ctx context.Context, g *pg.Group) error {
		return g.Gather(ctx, nil, f32(1), -1)
	}},
	{"gather without a list on the root", "0 tensors for 2 ranks", func(ctx context.Context, g *pg.Group) error {
		return g.Gather(ctx, nil, f32(1), 0)
	}},
	{"gather with a list elsewhere", "2 output tensors on rank 0, which is not the root 1", func(ctx context.Context, g *pg.Group) error {
		return g.Gather(ctx, list(2, 1), f32(1), 1)
	}},
	{"gather of another length", "tensor 0 of the root has 2 elements, rank 0's part has 1", func(ctx context.Context, g *pg.Group) error {
		return g.Gather(ctx, list(2, 2), f32(1), 0)
	}},
	{"gather of another type", "tensors of int8 and float32 in one call", func(ctx context.Context, g *pg.Group) error {
		return g.Gather(ctx, list(2, 1), colligo.Of([]int8{1}), 0)
	}},
	{"scatter without a list on the root", "0 tensors for 2 ranks", func(ctx context.Context, g *pg.Group) error {
		return g.Scatter(ctx, f32(1), nil, 0)
	}},
	{"scatter with a list elsewhere", "2 input tensors on rank 0, which is not the root 1", func(ctx context.Context, g *pg.Group) error {
		return g.Scatter(ctx, f32(1), list(2, 1), 1)
	}},
	{"scatter of another type", "tensors of int8 and float32 in one call", func(ctx context.Context, g *pg.Group) error {
		return g.Scatter(ctx, colligo.Of([]int8{1}), list(2, 1), 0)
	}},
	{"all_to_all of nothing", "the list of tensors is empty", func(ctx context.Context, g *pg.Group) error {
		return g.AllToAll(ctx, nil, nil)
	}},
	{"all_to_all into too few", "1 tensors for 2 ranks", func(ctx context.Context, g *pg.Group) error {
		return g.AllToAll(ctx, list(1, 1), list(2, 1))
	}},
	{"all_to_all of two types", "tensors of float32 and int32 in one call", func(ctx context.Context, g *pg.Group) error {
		return g.AllToAll(ctx, []colligo.Tensor{f32(1), colligo.Of([]int32{1})}, list(2, 1))
	}},
	{"all_to_all to itself", "rank 0 sends 1 elements to itself and receives 2", func(ctx context.Context, g *pg.Group) error {
		return g.AllToAll(ctx, list(2, 2), list(2, 1))
	}},
	{"all_to_all_single that cannot be cut", "3 elements in and 3 out cannot be split evenly over 2 ranks", func(ctx context.Context, g *pg.Group) error {
		return g.AllToAllSingle(ctx, f32(3), f32(3), nil, nil)
	}},
	{"all_to_all_single, splits of another length", "3 splits of 4 elements together for 2 ranks and a tensor of 4", func(ctx context.Context, g *pg.Group) error {
		return g.AllToAllSingle(ctx, f32(4), f32(4), nil, []int{1, 1, 2})
	}},
	{"all_to_all_single, splits of another sum", "2 splits of 5 elements together for 2 ranks and a tensor of 4", func(ctx context.Context, g *pg.Group) error {
		return g.AllToAllSingle(ctx, f32(4), f32(4), []int{2, 3}, nil)
	}},
	{"all_to_all_single, a negative split", "split 0 is -1", func(ctx context.Context, g *pg.Group) error {
		return g.AllToAllSingle(ctx, f32(4), f32(4), []int{-1, 5}, nil)
	}},
	{"all_to_all_single in place", "share memory", func(ctx context.Context, g *pg.Group) error {
		return g.AllToAllSingle(ctx, colligo.Of(shared), colligo.Of(shared), nil, nil)
	}},
	{"send to itself", "rank 0 is this rank itself", func(ctx context.Context, g *pg.Group) error {
		return g.Send(ctx, f32(1), 0, 0)
	}},
	{"recv from itself", "rank 0 is this rank itself", func(ctx context.Context, g *pg.Group) error {
		return g.Recv(ctx, f32(1), 0, 0)
	}},
	{"send to nobody", "peer -1 of a group of 2 ranks", func(ctx context.Context, g *pg.Group) error {
		return g.Send(ctx, f32(1), -1, 0)
	}},
	{"send with too large a tag", "does not fit into 32 bits", func(ctx context.Context, g *pg.Group) error {
		return g.Send(ctx, f32(1), 1, 1<<40)
	}},
	{"two devices", "tensors on cuda:0 and cpu in one call", func(ctx context.Context, g *pg.Group) error {
		return g.AllGatherIntoTensor(ctx, f32(2), colligo.OnDevice(gpu, 4096, 1, colligo.Float32))
	}},
	{"strided on a device", "is neither contiguous nor dense, as tensors on a device must be", func(ctx context.Context, g *pg.Group) error {
		return g.Recv(ctx, colligo.OnDevice(gpu, 4096, 4, colligo.Float32).Strided(0, []int{2}, []int{2}), 1, 0)
	}},
	{"barrier on two devices", "a barrier on 2 devices, a rank has one", func(ctx context.Context, g *pg.Group) error {
		return g.BarrierOn(ctx, gpu, gpu)
	}},
	{"objects from no rank", "pg: broadcast_object_list: root 2 of a group of 2 ranks", func(ctx context.Context, g *pg.Group) error {
		return object.BroadcastList(ctx, g, object.JSON, []int{1}, 2)
	}},
	{"objects without a list", "the list of objects is empty", func(ctx context.Context, g *pg.Group) error {
		return object.SendList(ctx, g, object.JSON, []int(nil), 1, 0)
	}},
	{"objects for too few", "pg: scatter_object_list: 1 objects for 2 ranks", func(ctx context.Context, g *pg.Group) error {
		_, err := object.ScatterList(ctx, g, object.JSON, []int{1}, 0)
		return err
	}},
	{"objects to no rank", "pg: gather_object: root 2 of a group of 2 ranks", func(ctx context.Context, g *pg.Group) error {
		_, err := object.Gather(ctx, g, object.JSON, 1, 2)
		return err
	}},
}

// TestRefused makes every wrong call on rank 0. None takes a number, sends a frame, or fails the group.
func TestRefused(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 0 {
			for _, c := range append(reductions, moves...) {
				require.ErrorContains(t, c.do(t.Context(), g), c.says, c.call)
			}
		}
		require.NoError(t, g.Err())
		require.NoError(t, g.Barrier(t.Context()))
	})
}

// TestRefusedOutside makes calls on a rank outside the group.
func TestRefusedOutside(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		sub, err := g.NewGroup(t.Context(), []int{1})
		require.NoError(t, err)
		if g.Rank() == 0 {
			for _, err := range []error{
				sub.AllReduceCoalesced(t.Context(), list(2, 1), colligo.Sum), sub.MonitoredBarrier(t.Context(), 0, false),
				sub.Coalesce(t.Context(), func(b *pg.Batch) error { b.Broadcast(f32(1), 0); return nil }),
				sub.BarrierOn(t.Context(), gpu), object.BroadcastList(t.Context(), sub, object.JSON, []int{1}, 0),
			} {
				require.ErrorIs(t, err, pg.ErrNotMember)
			}
		}
	})
}

// TestTaken makes calls that c10d refuses, or a backend of it, and that are fine here.
func TestTaken(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		ctx := t.Context()
		ints := []int32{3, -3}
		require.NoError(t, g.AllReduce(ctx, colligo.Of(ints), colligo.Avg))
		require.Equal(t, []int32{3, -3}, ints, "the average of integers, as NCCL has it")
		for _, d := range []colligo.DType{colligo.Float8E4M3FN, colligo.Float8E5M2} {
			one := []uint8{map[colligo.DType]uint8{colligo.Float8E4M3FN: 0x38, colligo.Float8E5M2: 0x3c}[d]}
			require.NoError(t, g.AllReduce(ctx, colligo.FromBits(one, d), colligo.Sum), "float8 sums, which c10d refuses")
			require.EqualValues(t, map[colligo.DType]uint8{colligo.Float8E4M3FN: 0x40, colligo.Float8E5M2: 0x40}[d], one[0])
		}
		require.NoError(t, g.AllReduceCoalesced(ctx, []colligo.Tensor{f32(0), f32(0)}, colligo.Sum), "nothing but empty tensors")
		in, own := colligo.Of(make([]float32, 8)), 4*g.Rank()
		require.NoError(t, g.AllGatherIntoTensor(ctx, in, in.Slice(own, own+4)), "the own part, in place")
		require.NoError(t, g.ReduceScatterTensor(ctx, in.Slice(own, own+4), in, colligo.Sum))
	})
}

// TestPremulEverywhere premultiplies in every collective that reduces, alone and in blocks, by factors that differ between ranks.
func TestPremulEverywhere(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		ctx, op := t.Context(), colligo.PremulSum(float64(1+g.Rank())) // ones become 1 + 2 + 3
		ones := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = 1
			}
			return x
		}
		six := func(x []float32) {
			t.Helper()
			for _, v := range x {
				require.EqualValues(t, 6, v)
			}
		}
		for range 2 {
			x, y, z, w, in := ones(4), ones(5), make([]float32, 4+g.Rank()), make([]float32, 2), ones(6)
			uneven := tensors([][]float32{ones(4), ones(5), ones(6)})
			require.NoError(t, g.AllReduceCoalesced(ctx, []colligo.Tensor{colligo.Of(x), colligo.Of(y)}, op))
			require.NoError(t, g.ReduceScatter(ctx, colligo.Of(z), uneven, op))
			require.NoError(t, g.ReduceScatterTensorCoalesced(ctx, []colligo.Tensor{colligo.Of(w)}, []colligo.Tensor{colligo.Of(in)}, op))
			six(append(append(append(x, y...), z...), w...))
			require.Equal(t, ones(6), in, "the input is only read")
			x, y, z = ones(4), ones(7), make([]float32, 4+g.Rank())
			require.NoError(t, g.Coalesce(ctx, func(b *pg.Batch) error {
				b.AllReduce(colligo.Of(x), op)
				b.AllReduce(colligo.Of(y[1:]), op)
				b.ReduceScatter(colligo.Of(z), uneven, op)
				b.Reduce(colligo.Of(in), 1, op)
				return nil
			}))
			six(append(append(x, y[1:]...), z...))
			if g.Rank() == 1 {
				six(in)
			}
		}
	})
}
