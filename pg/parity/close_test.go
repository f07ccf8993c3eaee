package parity

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
)

// summed runs one all-reduce.
func (r *rank) summed() {
	x := full(r, 100, float32(1))
	require.NoError(r.t, r.AllReduce(r.ctx, x, colligo.Sum))
	require.Equal(r.t, repeat(100, float32(r.Size())), values[float32](r, x))
}

// pair makes two more groups of all ranks.
func (r *rank) pair() (a, b *rank) {
	all := make([]int, r.Size())
	for i := range all {
		all[i] = i
	}
	g, err := r.NewGroup(r.ctx, all)
	require.NoError(r.t, err)
	h, err := r.NewGroup(r.ctx, all)
	require.NoError(r.t, err)
	return r.in(g), r.in(h)
}

// refused runs an all-reduce on a group that was closed.
func (r *rank) refused() {
	err := r.AllReduce(r.ctx, full(r, 100, float32(1)), colligo.Sum)
	require.ErrorIs(r.t, err, colligo.ErrClosed)
	require.ErrorIs(r.t, r.AllReduceAsync(r.ctx, full(r, 100, float32(1)), colligo.Sum).Wait(r.ctx), colligo.ErrClosed)
}

// TestInitNoGPUs uses a GPU tensor on a machine that has none.
func TestInitNoGPUs(t *testing.T) {
	if os.Getenv("COLLIGO_GPU") != "" {
		t.Skip("there are GPUs")
	}
	eachWith(t, 1, options{onlyCPU: true}, func(r *rank) {
		x := colligo.OnDevice(colligo.Device{Kind: colligo.CUDA}, 4096, 1, colligo.Float32)
		err := r.AllReduce(peer.With(r.ctx, peer.Options{}), x, colligo.Sum)
		require.ErrorContains(r.t, err, "libcuda.so.1")
	})
}

// TestNCCLDistBackendError has an error of the backend's arrive as the one type that all operations fail with.
func TestNCCLDistBackendError(t *testing.T) {
	eachWith(t, 1, options{onlyDevices: true}, func(r *rank) {
		nowhere := colligo.Device{Kind: colligo.CUDA, Index: 77}
		err := r.Broadcast(r.ctx, colligo.OnDevice(nowhere, 4096, 3, colligo.Int64), 0)
		var op *colligo.OpError
		require.ErrorAs(r.t, err, &op)
		require.Equal(r.t, "broadcast", op.Op)
		require.Equal(r.t, r.Rank(), op.Rank)
	})
}

func TestClosePG(t *testing.T) {
	each(t, 2, func(r *rank) {
		r.summed()
		r.leave()
		r.refused()
	})
}

func TestAbortInDestroyPG(t *testing.T) {
	each(t, 2, func(r *rank) {
		x := full(r, 100, float32(1))
		w := r.AllReduceAsync(r.ctx, x, colligo.Sum) // closing does not wait for somebody to wait for it, and ends it
		if r.letsEnd(w) {
			r.refused()
			return
		}
		require.Error(r.t, r.AllReduce(r.ctx, x, colligo.Sum))
	})
}

// TestCloseMultiPGUnordered closes groups in another order on each rank.
func TestCloseMultiPGUnordered(t *testing.T) {
	each(t, 2, func(r *rank) {
		r.summed()
		a, b := r.pair()
		a.summed()
		b.summed()
		if r.Rank() == 1 {
			a, b = b, a
		}
		b.leave()
		a.leave()
		r.leave()
	})
}

func TestAbortInDestroyMultiPGs(t *testing.T) {
	each(t, 2, func(r *rank) {
		r.summed()
		a, b := r.pair()
		a.summed()
		b.summed()
		for _, g := range []*rank{r, a, b} {
			g.leave()
			g.refused()
		}
	})
}

// TestAbortInDestroyMixedEmptyPGs closes a group that never ran anything.
func TestAbortInDestroyMixedEmptyPGs(t *testing.T) {
	each(t, 2, func(r *rank) {
		r.summed()
		a, b := r.pair()
		b.summed()
		for _, g := range []*rank{r, a, b} {
			g.leave()
		}
	})
}

// TestInitProcessGroupNCCLTimeout sets the limit of operations when the group is made.
func TestInitProcessGroupNCCLTimeout(t *testing.T) {
	each(t, 2, func(r *rank) {
		require.Equal(r.t, pg.DefaultTimeout, r.Timeout())
		r.summed()
		require.Equal(r.t, r.limit(), recent(r.Dump(everything))[0].Timeout)
	})
	config := func(_ int, c *pg.Config) { c.Timeout = 123e9 }
	eachWith(t, 2, options{config: config}, func(r *rank) {
		require.Equal(r.t, "2m3s", r.Timeout().String())
		r.summed()
	})
}
