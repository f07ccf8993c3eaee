package parity

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/pg"
)

func TestGetUID(t *testing.T) {
	each(t, 2, func(r *rank) {
		a, b := r.pair()
		defer a.leave()
		defer b.leave()
		seen := map[uint32]bool{r.UID(): true, a.UID(): true, b.UID(): true}
		require.Len(r.t, seen, 3)
		uids := full(r, 2, int64(0))
		require.NoError(r.t, r.AllGatherIntoTensor(r.ctx, uids, tensor(r, int64(a.UID()))))
		require.Equal(r.t, repeat(2, int64(a.UID())), values[int64](r, uids), "all ranks have the same")
	})
}

func TestSetProcessGroupDesc(t *testing.T) {
	each(t, 2, func(r *rank) {
		require.Equal(r.t, "default_pg", r.Desc())
		a, err := r.NewGroupWith(r.ctx, []int{0, 1}, pg.GroupOptions{Desc: "test_purpose"})
		require.NoError(r.t, err)
		defer a.Close()
		require.Equal(r.t, "test_purpose", a.Desc())
		b, err := r.NewGroup(r.ctx, []int{0, 1})
		require.NoError(r.t, err)
		defer b.Close()
		require.Equal(r.t, "undefined", b.Desc())
	})
}

func TestSetNCCLPGTimeout(t *testing.T) {
	config := func(_ int, c *pg.Config) { c.Timeout = 123 * time.Second }
	eachWith(t, 2, options{config: config}, func(r *rank) {
		r.summed()
		require.Equal(r.t, 123*time.Second, r.Timeout())
		for _, d := range []time.Duration{23 * time.Second, 252 * time.Second} {
			require.NoError(r.t, r.SetTimeout(d))
			require.Equal(r.t, d, r.Timeout())
			r.summed()
		}
	})
}

// taken returns the bytes that are in use on the rank's device.
func (r *rank) taken() (n uint64) {
	r.enter(func(th cuda.Thread) error {
		free, total, err := th.MemoryInfo()
		n = total - free
		return err
	})
	return n
}

// split makes a group of both ranks on a rank that has a device. It says whether memory is taken when the group is made, and
// whether when it is first used.
func (r *rank) split(o pg.GroupOptions) (made, used bool) {
	before := r.taken()
	g, err := r.NewGroupWith(r.ctx, []int{0, 1}, o)
	require.NoError(r.t, err)
	s := r.in(g)
	defer s.leave()
	require.NoError(r.t, r.Barrier(r.ctx))
	made = r.taken() > before
	require.NoError(r.t, r.Barrier(r.ctx))
	x := full(r, 1, int64(r.Rank()+5))
	between := r.taken()
	require.NoError(r.t, s.Broadcast(r.ctx, x, 0))
	require.Equal(r.t, []int64{5}, values[int64](r, x))
	return made, r.taken() > between
}

// onSimulated runs a test of memory on simulated devices only: others use real ones too.
func onSimulated(t *testing.T, o options, f func(r *rank)) {
	runs(t, onCudasim)
	o.onDevices(t, 2, simulated(t, 2), 2, f)
}

// TestCommSplitOptimization takes nothing of a device for a group before the first collective there. By NCCL the communicator of a
// group that is bound to a device is split once for a group of all ranks.
func TestCommSplitOptimization(t *testing.T) {
	joined(t, nccl.Options{}, func(r *rank, sim *ncclsim.Sim) { r.divided(sim, []int{0, 1}) })
	onSimulated(t, options{}, func(r *rank) {
		r.summed()
		made, used := r.split(pg.GroupOptions{})
		require.False(r.t, made)
		require.True(r.t, used)
	})
}

// TestNonBlockingInit is the same before the parent has used its device.
func TestNonBlockingInit(t *testing.T) {
	onSimulated(t, options{}, func(r *rank) {
		made, used := r.split(pg.GroupOptions{})
		require.False(r.t, made)
		require.True(r.t, used)
		r.summed()
	})
	each(t, 2, func(r *rank) {
		r.waited(r.AllReduceAsync(r.ctx, full(r, 100, float32(1)), colligo.Sum))
		r.spread(pg.GroupOptions{})
	})
}

// spread makes a group of both ranks that broadcasts.
func (r *rank) spread(o pg.GroupOptions) {
	g, err := r.NewGroupWith(r.ctx, []int{0, 1}, o)
	require.NoError(r.t, err)
	s := r.in(g)
	defer s.leave()
	x := full(r, 1, int64(r.Rank()+5))
	r.waited(s.BroadcastAsync(r.ctx, x, 0))
	require.Equal(r.t, []int64{5}, values[int64](r, x))
}

// eager binds a group to the rank's device.
func (r *rank) eager() pg.GroupOptions { return pg.GroupOptions{Device: r.gpu.Place()} }

// TestCommSplitSubgroup has a group that is bound to a device take what it needs at once. By NCCL its communicator is split once for
// a group of rank 0.
func TestCommSplitSubgroup(t *testing.T) {
	joined(t, nccl.Options{}, func(r *rank, sim *ncclsim.Sim) { r.divided(sim, []int{0}) })
	onSimulated(t, options{}, func(r *rank) {
		made, used := r.split(r.eager())
		require.True(r.t, made)
		require.False(r.t, used)
	})
}

// TestNonBlockingWithEagerInit refuses other devices in a bound group, and works on its own.
func TestNonBlockingWithEagerInit(t *testing.T) {
	onSimulated(t, options{}, func(r *rank) {
		g, err := r.NewGroupWith(r.ctx, []int{0, 1}, r.eager())
		require.NoError(r.t, err)
		s := r.in(g)
		defer s.leave()
		s.summed()
		other := colligo.Device{Kind: colligo.CUDA, Index: 1 - r.gpu.Place().Index}
		err = s.AllReduce(r.ctx, colligo.OnDevice(other, 4096, 1, colligo.Float32), colligo.Sum)
		require.ErrorContains(r.t, err, other.String())
		s.summed()
		made, used := r.split(pg.GroupOptions{})
		require.False(r.t, made, "a group of a bound one takes nothing before it is used")
		require.True(r.t, used)
	})
	eachWith(t, 2, options{onlyDevices: true}, func(r *rank) {
		g, err := r.NewGroupWith(r.ctx, []int{0, 1}, r.eager())
		require.NoError(r.t, err)
		s := r.in(g)
		defer s.leave()
		r.waited(s.AllReduceAsync(r.ctx, full(r, 100, float32(1)), colligo.Sum))
		s.spread(pg.GroupOptions{})
	})
}

func TestNewGroupLocalSync(t *testing.T) {
	each(t, 4, func(r *rank) {
		ranks := []int{r.Rank() / 2 * 2, r.Rank()/2*2 + 1}
		g, err := r.NewGroupWith(r.ctx, ranks, pg.GroupOptions{LocalSync: true})
		require.NoError(r.t, err)
		s := r.in(g)
		defer s.leave()
		x := full(r, 1, int64(r.Rank()))
		require.NoError(r.t, s.AllReduce(r.ctx, x, colligo.Sum))
		require.Equal(r.t, []int64{int64(ranks[0] + ranks[1])}, values[int64](r, x))
		require.NoError(r.t, s.Barrier(r.ctx))
	})
}

// TestNewGroupLocalSyncSanityCheck has each rank make a group with the rank two further on, and one of itself alone.
func TestNewGroupLocalSyncSanityCheck(t *testing.T) {
	each(t, 4, func(r *rank) {
		ranks := []int{r.Rank() % 2, r.Rank()%2 + 2}
		g, err := r.NewGroupWith(r.ctx, ranks, pg.GroupOptions{LocalSync: true})
		require.NoError(r.t, err)
		s := r.in(g)
		defer s.leave()
		require.Equal(r.t, r.Rank()/2, g.Rank())
		require.Equal(r.t, ranks, g.Ranks())
		both := []colligo.Tensor{full(r, 1, int64(-1)), full(r, 1, int64(-1))}
		require.NoError(r.t, s.AllGather(r.ctx, both, full(r, 1, int64(r.Rank()))))
		for i, x := range both {
			require.Equal(r.t, []int64{int64(ranks[i])}, values[int64](r, x))
		}
		alone, err := r.NewGroupWith(r.ctx, []int{r.Rank()}, pg.GroupOptions{LocalSync: true})
		require.NoError(r.t, err)
		own := r.in(alone)
		defer own.leave()
		require.Zero(r.t, alone.Rank())
		require.Equal(r.t, []int{r.Rank()}, alone.Ranks())
		require.NoError(r.t, own.Barrier(r.ctx))
		none, err := r.NewGroupWith(r.ctx, []int{(r.Rank() + 1) % 4}, pg.GroupOptions{LocalSync: true})
		require.NoError(r.t, err, "a rank that is not a member does not wait")
		require.False(r.t, none.IsMember())
	})
}

// TestNewGroupLocalSyncDuplicatedPG makes two groups of the same ranks.
func TestNewGroupLocalSyncDuplicatedPG(t *testing.T) {
	each(t, 4, func(r *rank) {
		ranks := []int{r.Rank() / 2 * 2, r.Rank()/2*2 + 1}
		var names []string
		for k := range 2 {
			g, err := r.NewGroupWith(r.ctx, ranks, pg.GroupOptions{LocalSync: true})
			require.NoError(r.t, err)
			s := r.in(g)
			defer s.leave()
			names = append(names, g.Name())
			x := full(r, 1, int64(k+1))
			require.NoError(r.t, s.AllReduce(r.ctx, x, colligo.Sum))
			require.Equal(r.t, []int64{int64(2 * (k + 1))}, values[int64](r, x))
		}
		require.NotEqual(r.t, names[0], names[1])
	})
}

// outside expects every call on a group that the rank is not in to be an error.
func outside(t *testing.T, level pg.DebugLevel) {
	config := func(_ int, c *pg.Config) { c.Debug.Level = level }
	eachWith(t, 2, options{config: config}, func(r *rank) {
		g, err := r.NewGroup(r.ctx, []int{1})
		require.NoError(r.t, err)
		if r.Rank() == 1 {
			r.in(g).leave()
			return
		}
		x := full(r, 2, float32(1))
		list := []colligo.Tensor{x}
		for name, err := range map[string]error{
			"all_reduce": g.AllReduce(r.ctx, x, colligo.Sum),
			"broadcast":  g.Broadcast(r.ctx, x, 0),
			"reduce":     g.Reduce(r.ctx, x, 0, colligo.Sum),
			"all_gather": g.AllGather(r.ctx, list, x),
			"gather":     g.Gather(r.ctx, list, x, 0),
			"scatter":    g.Scatter(r.ctx, x, list, 0),
			"all_to_all": g.AllToAll(r.ctx, list, list),
			"barrier":    g.Barrier(r.ctx),
			"send":       g.Send(r.ctx, x, 0, 0),
			"recv":       g.Recv(r.ctx, x, 0, 0),
			"async":      g.AllReduceAsync(r.ctx, x, colligo.Sum).Wait(r.ctx),
		} {
			require.ErrorIs(r.t, err, pg.ErrNotMember, name)
		}
		require.Equal(r.t, repeat(2, float32(1)), values[float32](r, x))
	})
}

func TestNCCLWarnNotInGroupDebugDetail(t *testing.T) { outside(t, pg.DebugDetail) }
func TestNCCLWarnNotInGroupDebugInfo(t *testing.T)   { outside(t, pg.DebugInfo) }
func TestNCCLWarnNotInGroupDebugOff(t *testing.T)    { outside(t, pg.DebugOff) }

func TestNNCLRankMembership(t *testing.T) {
	each(t, 2, func(r *rank) {
		g, err := r.NewGroup(r.ctx, []int{1})
		require.NoError(r.t, err)
		require.Equal(r.t, r.Rank() == 1, g.IsMember())
		at, err := g.GroupRank(1)
		require.NoError(r.t, err)
		require.Equal(r.t, 0, at)
		_, err = g.GroupRank(0)
		require.ErrorContains(r.t, err, "0")
		_, err = g.GlobalRank(1)
		require.ErrorContains(r.t, err, "1")
		if g.IsMember() {
			r.in(g).leave()
		} else {
			require.Equal(r.t, colligo.NoRank, g.Rank())
		}
	})
}

// TestNaNAssert refuses an input with a NaN before anything is sent, and says where it is.
func TestNaNAssert(t *testing.T) {
	config := func(_ int, c *pg.Config) { c.Debug.NaNCheck = pg.On }
	for _, d := range []colligo.DType{colligo.Float16, colligo.Float32, colligo.Float64} {
		t.Run(d.String(), func(t *testing.T) {
			eachWith(t, 2, options{config: config}, func(r *rank) {
				v := make([]float64, 100_000)
				v[80_037+r.Rank()] = math.NaN()
				err := r.AllReduce(r.ctx, typed(r, d, v), colligo.Sum)
				var op *colligo.OpError
				require.True(r.t, errors.As(err, &op), "%v", err)
				require.Regexp(r.t, `at element (80037 \[rank 0|80038 \[rank 1)`, err.Error())
			})
		})
	}
}

func TestSequenceNumIncrementedNCCLSubgroup(t *testing.T) {
	each(t, 4, func(r *rank) {
		s := r.halves()
		defer s.leave()
		before := s.AllReduceAsync(r.ctx, full(r, 1, float32(1)), colligo.Sum)
		r.waited(before)
		for range 3 {
			s.summed()
		}
		after := s.AllReduceAsync(r.ctx, full(r, 1, float32(1)), colligo.Sum)
		r.waited(after)
		require.Equal(r.t, before.Seq()+4, after.Seq())
		both := full(r, 2, int64(0))
		require.NoError(r.t, s.AllGatherIntoTensor(r.ctx, both, tensor(r, int64(after.Seq()))))
		require.Equal(r.t, repeat(2, int64(after.Seq())), values[int64](r, both))
	})
}

func TestSequenceNumSetNCCLNewGroup(t *testing.T) {
	each(t, 2, func(r *rank) {
		a, b := r.pair()
		defer a.leave()
		defer b.leave()
		a.summed()
		x := a.AllReduceAsync(r.ctx, full(r, 1, float32(1)), colligo.Sum)
		y := b.AllReduceAsync(r.ctx, full(r, 1, float32(1)), colligo.Sum)
		r.waited(x)
		r.waited(y)
		require.Equal(r.t, y.Seq()+1, x.Seq(), "each group counts by itself")
	})
}

func TestNCCLBarrierDeviceIDs(t *testing.T) {
	each(t, 2, func(r *rank) {
		var on []colligo.Device
		if r.gpu != nil {
			on = append(on, r.gpu.Place())
		}
		require.NoError(r.t, r.BarrierOn(r.ctx, on...))
	})
}

// TestNCCLBarrierDeviceIDsFunctionArgument refuses devices that a barrier cannot be on.
func TestNCCLBarrierDeviceIDsFunctionArgument(t *testing.T) {
	each(t, 2, func(r *rank) {
		gpu := func(i int) colligo.Device { return colligo.Device{Kind: colligo.CUDA, Index: i} }
		require.ErrorContains(r.t, r.BarrierOn(r.ctx, gpu(-1)), "there is no device cuda:-1")
		require.ErrorContains(r.t, r.BarrierOn(r.ctx, gpu(0), gpu(1)), "a barrier on 2 devices, a rank has one")
		require.NoError(r.t, r.Barrier(r.ctx), "what was refused has no place in the order")
	})
}
