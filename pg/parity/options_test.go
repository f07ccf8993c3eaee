package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/plan"
)

// chosen runs all-reduces in a group of its own whose backend gets options.
func chosen(t *testing.T, change func(o *peer.Options)) {
	d := simulated(t, 2)
	var o options
	o.onDevices(t, 2, d, 2, func(r *rank) {
		g, err := r.NewGroup(r.ctx, []int{0, 1})
		require.NoError(r.t, err)
		given := peer.Options{Driver: d, Memory: 24 << 20}
		change(&given)
		s := r.in(g)
		s.ctx = peer.OnStream(peer.With(r.t.Context(), given), r.Stream)
		defer s.leave()
		for _, n := range []int{10, 5000, 100_000} {
			x := full(r, n, float32(r.Rank()+1))
			require.NoError(r.t, s.AllReduceAsync(s.ctx, x, colligo.Sum).Wait(s.ctx))
			require.Equal(r.t, repeat(n, float32(3)), values[float32](r, x))
		}
	})
}

// TestPassNCCLOptionsConfig gives a group's backend a table with few blocks.
func TestPassNCCLOptionsConfig(t *testing.T) {
	chosen(t, func(o *peer.Options) {
		o.Rules = []peer.Rule{{Coll: plan.AllReduce, Algorithm: peer.Tiles, Blocks: 2, Threads: 64}}
	})
}

// TestPassNCCLOptionsHighPriorityStream needs no option: asynchronous operations always run on streams that go first.
func TestPassNCCLOptionsHighPriorityStream(t *testing.T) { chosen(t, func(*peer.Options) {}) }

// TestIntraNodeCommAllReduce takes the ways of one host by size: packets first, then kernels that push tiles.
func TestIntraNodeCommAllReduce(t *testing.T) {
	algorithm := func(bytes int) peer.Algorithm {
		c, err := peer.Options{}.Explain(plan.AllReduce, 4, bytes, true)
		require.NoError(t, err)
		return c.Algorithm
	}
	require.Equal(t, peer.LL, algorithm(4<<10))
	require.NotEqual(t, peer.LL, algorithm(64<<20))
	_, err := peer.Options{}.Explain(plan.AllReduce, 9, 4<<10, true)
	require.ErrorContains(t, err, "groups on devices have 1 to 8 ranks")
}

// TestCoalescingManagerCollective records a batch of equal calls as one operation.
func TestCoalescingManagerCollective(t *testing.T) {
	eachWith(t, 2, options{cpuOnly: true}, func(r *rank) {
		outs := []colligo.Tensor{full(r, 2, float32(0)), full(r, 2, float32(0))}
		require.NoError(r.t, r.Coalesce(r.ctx, func(b *pg.Batch) error {
			for i := range outs {
				b.ReduceScatterTensor(outs[i], full(r, 4, float32(1)), colligo.Sum)
			}
			return nil
		}))
		entries := r.Dump(flight.DumpOptions{Entries: true}).Entries
		require.Len(r.t, entries, 1)
		e := entries[0]
		require.Equal(r.t, "nccl:reduce_scatter_tensor_coalesced", e.Name)
		require.Equal(r.t, uint64(1), e.Seq)
		require.Equal(r.t, [][]int64{{4}, {4}}, e.InSizes)
		require.Equal(r.t, [][]int64{{2}, {2}}, e.OutSizes)
		require.Equal(r.t, flight.Completed, e.State)
	})
}
