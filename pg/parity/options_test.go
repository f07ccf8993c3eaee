package parity

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/plan"
)

// chosen runs all-reduces in a group of its own whose backend gets options.
func chosen(t *testing.T, change func(o *peer.Options)) {
	severalDevices(t, 1, func(t *testing.T, d *cuda.Driver) { chosenOn(t, d, change) })
}

// reduced runs all-reduces of some lengths.
func (r *rank) reduced() {
	for _, n := range []int{10, 5000, 100_000} {
		x := full(r, n, float32(r.Rank()+1))
		require.NoError(r.t, r.AllReduceAsync(r.ctx, x, colligo.Sum).Wait(r.ctx))
		equal(r.t, repeat(n, float32(3)), values[float32](r, x))
	}
}

func chosenOn(t *testing.T, d *cuda.Driver, change func(o *peer.Options)) {
	var o options
	o.onDevices(t, 2, d, 2, func(r *rank) {
		g, err := r.NewGroup(r.ctx, []int{0, 1})
		require.NoError(r.t, err)
		given := peer.Options{Driver: d, Memory: 24 << 20}
		change(&given)
		s := r.in(g)
		s.ctx = peer.OnStream(peer.With(r.t.Context(), given), r.Stream)
		defer s.leave()
		s.reduced()
	})
}

// TestPassNCCLOptionsConfig gives a group's backend a table with few blocks. NCCL gets the fields that PyTorch's test gives it.
func TestPassNCCLOptionsConfig(t *testing.T) {
	given := nccl.Config{MaxCTAs: 4, MinCTAs: 2, CGAClusterSize: 2, NetName: "Socket"}
	sim := joined(t, nccl.Options{Config: given}, func(r *rank, _ *ncclsim.Sim) { r.reduced() })
	require.Equal(t, []nccl.Config{given, given}, sim.Configs())
	chosen(t, func(o *peer.Options) {
		o.Rules = []peer.Rule{{Coll: plan.AllReduce, Algorithm: peer.Tiles, Blocks: 2, Threads: 64}}
	})
}

// TestPassNCCLOptionsHighPriorityStream needs no option with package peer: its asynchronous operations always run on streams of the
// device's greatest priority. NCCL's operations do so by option. The test counts the streams.
func TestPassNCCLOptionsHighPriorityStream(t *testing.T) {
	runs(t, onCudasim)
	streamsOf(t, func(d *cuda.Driver) { chosenOn(t, d, func(*peer.Options) {}) })
	streamsOf(t, func(d *cuda.Driver) {
		joined(t, nccl.Options{Driver: d, HighPriority: true}, func(r *rank, _ *ncclsim.Sim) { r.reduced() })
	})
}

// streamsOf holds that two ranks make streams of the greatest priority in f, and one other each.
func streamsOf(t *testing.T, f func(d *cuda.Driver)) {
	d := simulated(t, 2)
	spied := *d
	var first, others atomic.Int32
	spied.StreamCreateWithPriority = func(flags cuda.StreamFlags, priority int) (cuda.Stream, cuda.Result) {
		if _, greatest, _ := d.CtxGetStreamPriorityRange(); priority == greatest {
			first.Add(1)
		} else {
			others.Add(1)
		}
		return d.StreamCreateWithPriority(flags, priority)
	}
	f(&spied)
	require.Positive(t, first.Load())
	require.EqualValues(t, 2, others.Load(), "the ranks' own streams")
}

// TestIntraNodeCommAllReduce reduces bfloat16 in one host by the sizes at which PyTorch takes its own kernels and at which it takes
// NCCL's. Here kernels of this package serve all of them: by LL up to 4 KiB, and by others beyond.
func TestIntraNodeCommAllReduce(t *testing.T) {
	const most = 10<<20 + 2 // one element more than what PyTorch's own kernels take
	eachWith(t, 2, options{arena: most + 256}, func(r *rank) {
		buffer := colligo.FromBits(make([]uint16, most/2), colligo.BFloat16)
		if r.gpu != nil {
			buffer = r.onDevice(buffer)
		}
		for _, c := range []struct {
			bytes int
			op    colligo.ReduceOp
			want  float32
		}{
			{4 << 10, colligo.Sum, 2}, {4 << 10, colligo.Avg, 1}, {512 << 10, colligo.Sum, 2}, {512 << 10, colligo.Avg, 1},
			{10 << 20, colligo.Sum, 2}, {most, colligo.Sum, 2},
		} {
			n := c.bytes / 2
			x := buffer.Slice(0, n)
			r.write(x, bytesOf(repeat(n, colligo.BFloat16FromFloat32(float32(2*r.Rank())))))
			require.NoError(r.t, r.AllReduce(r.ctx, x, c.op))
			wrong := slices.IndexFunc(values[uint16](r, x), func(v uint16) bool { return v != colligo.BFloat16FromFloat32(c.want) })
			require.Negative(r.t, wrong, "the first element of %d that is wrong", n)
		}
	})
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
	timings(t, 2, options{}, func(r *rank, timing bool) {
		outs := []colligo.Tensor{full(r, 2, float32(0)), full(r, 2, float32(0))}
		r.waited(r.CoalesceAsync(r.ctx, func(b *pg.Batch) error {
			for i := range outs {
				b.ReduceScatterTensor(outs[i], full(r, 4, float32(1)).Strided(0, []int{2, 2}, []int{2, 1}), colligo.Sum)
			}
			return nil
		}))
		for _, out := range outs {
			require.Equal(r.t, repeat(2, float32(2)), values[float32](r, out))
		}
		require.NoError(r.t, r.WaitPending(r.ctx))
		entries := r.entries()
		require.Len(r.t, entries, 1)
		e := entries[0]
		require.Equal(r.t, "nccl:reduce_scatter_tensor_coalesced", e.Name)
		require.Equal(r.t, uint64(1), e.Seq)
		require.Equal(r.t, [][]int64{{2, 2}, {2, 2}}, e.InSizes)
		require.Equal(r.t, [][]int64{{2}, {2}}, e.OutSizes)
		require.Equal(r.t, flight.Completed, e.State)
		require.Equal(r.t, timing, e.Duration >= 0, "%v", e.Duration)
	})
}
