package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// TestRefusedReductions has all ranks call reductions that NCCL lacks, alone, in the background and in a block. Only the call fails, as in
// c10d, and the group goes on. The call takes no number and no record here. The test runs on NCCL alone, for the other media have every
// reduction.
func TestRefusedReductions(t *testing.T) {
	runs(t, onNCCL)
	(&options{}).onNCCL(t, 2, func(r *rank) {
		sum := func(want uint64) {
			x := full(r, 3, int64(r.Rank()+1))
			w := r.AllReduceAsync(r.ctx, x, colligo.Sum)
			require.NoError(r.t, w.Synchronize(r.ctx))
			require.Equal(r.t, []int64{3, 3, 3}, values[int64](r, x))
			require.Equal(r.t, want, w.Seq())
		}
		sum(1)
		float8 := func() colligo.Tensor {
			return r.onDevice(colligo.FromBits(repeat(4, uint8(0x38)), colligo.Float8E4M3FN))
		}
		whole, other := full(r, 4, int64(5)), full(r, 4, int64(5))
		for _, c := range []struct {
			x, y colligo.Tensor
			by   colligo.ReduceOp
			says string
		}{
			{whole, other, colligo.BAnd, "Cannot use ReduceOp.BAND with NCCL"},
			{whole, other, colligo.BXor, "Cannot use ReduceOp.BXOR with NCCL"},
			{full(r, 4, int16(5)), full(r, 4, int16(5)), colligo.Sum, "Input tensor data type is not supported for NCCL process group"},
			{float8(), float8(), colligo.PremulSum(2), "PreMulSum Data type must be half, float, bfloat16 or double"},
		} {
			require.ErrorContains(r.t, r.AllReduce(r.ctx, c.x, c.by), c.says)
			require.ErrorContains(r.t, r.AllReduceAsync(r.ctx, c.x, c.by).Wait(r.ctx), c.says)
			require.ErrorContains(r.t, r.ReduceScatterTensor(r.ctx, c.x.Slice(0, 2), c.y, c.by), c.says)
			require.ErrorContains(r.t, r.AllReduceCoalesced(r.ctx, []colligo.Tensor{c.x, c.y}, c.by), c.says)
			require.ErrorContains(r.t, r.CoalesceAsync(r.ctx, func(b *pg.Batch) error {
				b.AllReduce(whole, colligo.Sum)
				b.AllReduce(c.x, c.by)
				return nil
			}).Wait(r.ctx), c.says)
		}
		sum(2)
		require.Equal(r.t, repeat(4, int64(5)), values[int64](r, whole))
		require.Len(r.t, r.Dump(flight.DumpOptions{Entries: true}).Entries, 2)
	})
}
