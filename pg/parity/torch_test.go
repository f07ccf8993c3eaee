package parity

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// joinedSize is how many ranks a job of joined has.
const joinedSize = 2

// joined runs f on the ranks of a job that ranks of PyTorch could be in. They are bound to simulated devices, those of the options if
// these have a driver. The simulated NCCL carries out their operations.
func joined(t *testing.T, given nccl.Options, f func(r *rank, sim *ncclsim.Sim)) *ncclsim.Sim {
	runs(t, onNCCL)
	if given.Driver == nil {
		given.Driver = simulated(t, joinedSize)
	}
	d := given.Driver
	sim, s := ncclsim.New(d, ncclsim.Version), store.NewHash()
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	var err error
	given.Library, err = sim.Library()
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range joinedSize {
		all.Go(func() {
			dev, err := d.Device(i)
			require.NoError(t, err)
			r := &rank{t: t, gpu: dev, driver: d, arena: &arena{}}
			r.settle()
			r.enter(func(th cuda.Thread) (err error) {
				r.Stream, err = th.NewStream(0)
				return err
			})
			r.ctx = peer.OnStream(nccl.With(t.Context(), given), r.Stream)
			c := pg.Config{Backends: "nccl", Torch: "2.11", Store: s, Rank: i, Size: joinedSize, Timeout: time.Minute, Device: dev.Place()}
			r.Group, err = pg.Init(r.ctx, c)
			require.NoError(t, err)
			defer func() {
				_ = r.Close() // where f has failed
				r.free()
			}()
			f(r, sim)
			require.NoError(t, r.CloseAll())
		})
	}
	all.Wait()
	return sim
}

// divided splits the job's communicator for groups, as PyTorch's tests of comm_split_count do.
func (r *rank) divided(sim *ncclsim.Sim, ranks []int) {
	x := full(r, 1, int64(r.Rank()))
	require.NoError(r.t, r.Broadcast(r.ctx, x, 0))
	require.Equal(r.t, []int64{0}, values[int64](r, x))
	require.Empty(r.t, sim.Splits(r.Rank()), "the group itself is not split")
	g, err := r.NewGroup(r.ctx, ranks)
	require.NoError(r.t, err)
	require.Len(r.t, sim.Splits(r.Rank()), 1, "a rank outside takes part")
	if !g.IsMember() {
		return
	}
	s := r.in(g)
	y := full(r, 1, int64(r.Rank()+5))
	require.NoError(r.t, s.Broadcast(r.ctx, y, 0))
	require.Equal(r.t, []int64{5}, values[int64](r, y))
	require.Len(r.t, sim.Splits(r.Rank()), 1, "a collective splits nothing")
}
