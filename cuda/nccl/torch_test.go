package nccl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
	"github.com/colligo-go/colligo/pg/sparse"
	"github.com/colligo-go/colligo/store"
)

// keysStore notes the keys that are set in a store.
type keysStore struct {
	store.Store
	mu   sync.Mutex
	keys []string
}

func (s *keysStore) Set(ctx context.Context, key string, value []byte) error {
	s.mu.Lock()
	s.keys = append(s.keys, key)
	s.mu.Unlock()
	return s.Store.Set(ctx, key, value)
}

func (s *keysStore) Add(ctx context.Context, key string, n int64) (int64, error) {
	s.mu.Lock()
	s.keys = append(s.keys, "add "+key)
	s.mu.Unlock()
	return s.Store.Add(ctx, key, n)
}

// asTorch calls f for each rank of a job that is as PyTorch's ranks would have it. It returns the keys that were set, sorted.
func asTorch(t *testing.T, size int, eager bool, f func(r *rank) error) ([]string, *ncclsim.Sim) {
	t.Helper()
	return asTorchWith(t, size, func(c *pg.Config) {
		if eager {
			c.Device = colligo.Device{Kind: colligo.CUDA, Index: c.Rank}
		}
	}, f)
}

// asTorchWith runs f on all ranks of a job that PyTorch could join, with a changed configuration. It returns the store keys that were set.
func asTorchWith(t *testing.T, size int, change func(c *pg.Config), f func(r *rank) error) ([]string, *ncclsim.Sim) {
	t.Helper()
	return asTorchBy(t, size, nccl.Options{}, change, f)
}

func asTorchBy(t *testing.T, size int, o nccl.Options, change func(c *pg.Config), f func(r *rank) error) ([]string, *ncclsim.Sim) {
	t.Helper()
	devices := cudasim.New(cudasim.Config{Devices: size, Seed: 1, Patience: simPatience})
	cudasim.Limit(t, devices)
	library := ncclsim.New(devices.Driver(), ncclsim.Version)
	s := &keysStore{Store: store.NewHash()}
	errs := make([]error, size)
	var all sync.WaitGroup
	for i := range size {
		all.Go(func() {
			errs[i] = torchLife(t.Context(), s, devices.Driver(), library, &pg.Config{Rank: i, Size: size}, o, change, f)
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, library.Close())
	devices.Drain()
	require.Empty(t, devices.Races())
	devices.Close()
	slices.Sort(s.keys)
	return s.keys, library
}

// torchLife is what one rank does.
func torchLife(ctx context.Context, s store.Store, d *cuda.Driver, sim *ncclsim.Sim, c *pg.Config, o nccl.Options, change func(c *pg.Config),
	f func(r *rank) error) error {
	o.Driver = d
	var err error
	if o.Library, err = sim.Library(); err != nil {
		return err
	}
	r := &rank{sim: sim}
	if r.device, err = d.Device(c.Rank); err != nil {
		return err
	}
	if err = r.on(func(t cuda.Thread) (err error) { r.stream, err = t.NewStream(0); return err }); err != nil {
		return err
	}
	r.ctx = nccl.With(streamorder.OnStream(ctx, r.stream), o)
	c.Backends, c.Torch, c.Store, c.Timeout, c.Recorder.DumpOnError = "nccl", "2.11", s, time.Minute, pg.Off
	if change != nil {
		change(c)
	}
	if r.Group, err = pg.Init(r.ctx, *c); err != nil {
		return err
	}
	if err := f(r); err != nil {
		r.Abort(err)
		return fmt.Errorf("rank %d: %w", c.Rank, errors.Join(err, r.CloseAll()))
	}
	return r.on(func(t cuda.Thread) error {
		err := t.Synchronize(r.stream)
		for _, p := range r.memory {
			err = errors.Join(err, t.Free(p))
		}
		return errors.Join(err, r.CloseAll(), t.DestroyStream(r.stream), r.device.Close())
	})
}

// ones is a tensor on the device.
func (r *rank) ones(n int) (colligo.Tensor, error) {
	return r.moved(colligo.Of(slices.Repeat([]int64{1}, n)))
}

// summed all-reduces in a group and compares.
func (r *rank) summed(g *pg.Group) error {
	x, err := r.ones(5)
	if err == nil {
		err = g.AllReduce(r.ctx, x, colligo.Sum)
	}
	if err != nil {
		return err
	}
	got, err := r.bytes(x)
	if want := colligo.Of(slices.Repeat([]int64{int64(g.Size())}, 5)); err == nil && !slices.Equal(got, want.CPUBytes()) {
		err = fmt.Errorf("group %s: sum is %v", g.Name(), got)
	}
	return err
}

// passed sends a tensor from rank 0 of a group to rank 1.
func (r *rank) passed(g *pg.Group) error {
	x, err := r.ones(3)
	switch {
	case err != nil || g.Rank() > 1:
		return err
	case g.Rank() == 0:
		return g.Send(r.ctx, x, 1, 0)
	}
	return g.Recv(r.ctx, x, 0, 0)
}

// TestTorchKeys holds the keys of a job to those that were seen of PyTorch 2.11's ranks.
func TestTorchKeys(t *testing.T) {
	life := func(r *rank) error {
		err := errors.Join(r.passed(r.Group), r.summed(r.Group), r.Barrier(r.ctx))
		one, err2 := r.NewGroup(r.ctx, []int{0})
		both, err3 := r.NewGroup(r.ctx, []int{0, 1})
		if err = errors.Join(err, err2, err3); err != nil {
			return err
		}
		if one.Name() != "1" || both.Name() != "2" {
			return fmt.Errorf("groups are %s and %s", one.Name(), both.Name())
		}
		if r.Rank() == 0 {
			err = r.summed(one)
		}
		_, err4 := object.AllGather(r.ctx, r.Group, object.Pickle, r.Rank())
		return errors.Join(err, r.summed(both), r.passed(both), both.Barrier(r.ctx), err4)
	}
	t.Run("lazy", func(t *testing.T) {
		keys, library := asTorch(t, 2, false, life)
		require.Equal(t, []string{"0//1//cuda//0", "0//2//cuda//0", "0//2//cuda//0:1", "0//cuda//0", "0//cuda//0:1"}, keys)
		require.NotContains(t, library.Calls(), "ncclCommSplit")
	})
	t.Run("eager", func(t *testing.T) {
		keys, library := asTorch(t, 2, true, life)
		require.Equal(t, []string{"0//cuda//0"}, keys)
		require.Equal(t, 4, count(library.Calls(), "ncclCommSplit"))
		require.Equal(t, 2, count(library.Calls(), "ncclCommInitRank"))
	})
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// TestTorchSplits holds colors, keys and the order of splits to those of PyTorch's ranks, which come to the same call of NCCL.
func TestTorchSplits(t *testing.T) {
	const none = nccl.NoColor
	for version, colors := range map[string]struct{ low, high, odd, all int }{
		"2.8":  {2130503744, 1121016176, 1984952676, 2003953581},
		"2.10": {1301594146, 1301594018, 1301593953, 1213413532},
		"2.11": {0, 2, 1, 0},
	} {
		t.Run(version, func(t *testing.T) {
			_, library := asTorchWith(t, 4, func(c *pg.Config) {
				c.Torch, c.Device = version, colligo.Device{Kind: colligo.CUDA, Index: c.Rank}
			}, splitThrice)
			low, high := ncclsim.Split{Size: 4, Color: colors.low}, ncclsim.Split{Size: 4, Color: colors.high}
			for rank, want := range [][]ncclsim.Split{
				{{Size: 4, Color: none, Key: 0}, low, {Size: 4, Color: none, Key: 0}},
				{{Size: 4, Color: 1984952676, Key: 0}, {Size: 4, Color: low.Color, Key: 1}, {Size: 4, Color: colors.odd, Key: 0}},
				{{Size: 4, Color: none, Key: 2}, high, {Size: 4, Color: none, Key: 2}},
				{{Size: 4, Color: 1984952676, Key: 1}, {Size: 4, Color: high.Color, Key: 1}, {Size: 4, Color: colors.odd, Key: 1}},
			} {
				want = append(want, ncclsim.Split{Size: 4, Color: colors.all, Key: rank})
				require.Equal(t, want, library.Splits(rank), "rank %d", rank)
			}
		})
	}
}

// splitThrice makes a group of the odd ranks. It then splits the job in halves, to the odd ranks, and to all of them.
func splitThrice(r *rank) error {
	_, err := r.NewGroup(r.ctx, []int{1, 3})
	for _, lists := range [][][]int{{{0, 1}, {3, 2}}, {{1, 3}}, {{0, 1, 2, 3}}} {
		part, err2 := r.SplitGroup(r.ctx, lists, pg.GroupOptions{})
		if err = errors.Join(err, err2); err != nil {
			return err
		}
		if part.IsMember() {
			err = r.summed(part)
		}
	}
	return err
}

// TestTorchCollectives compares every collective with what it is to be, on groups of all kinds.
func TestTorchCollectives(t *testing.T) {
	for _, eager := range []bool{false, true} {
		t.Run(fmt.Sprintf("eager=%v", eager), func(t *testing.T) {
			asTorch(t, 4, eager, func(r *rank) error {
				half := []int{0, 1}
				if r.Rank() > 1 {
					half = []int{2, 3}
				}
				mine, _, err := r.NewSubgroups(r.ctx, 2, pg.GroupOptions{})
				if err != nil {
					return err
				}
				if !slices.Equal(mine.Ranks(), half) {
					return fmt.Errorf("the group is of ranks %v", mine.Ranks())
				}
				err = errors.Join(r.summed(mine), r.passed(mine), mine.Barrier(r.ctx), r.summed(r.Group))
				split, err2 := r.SplitGroup(r.ctx, [][]int{{0, 1}, {2, 3}}, pg.GroupOptions{})
				if !eager {
					if err2 == nil || !strings.Contains(err2.Error(), "bound to no device") {
						err = errors.Join(err, fmt.Errorf("split: %v", err2))
					}
					return err
				}
				if err = errors.Join(err, err2); err != nil {
					return err
				}
				return errors.Join(r.summed(split), r.passed(split), split.Barrier(r.ctx))
			})
		})
	}
}

// TestTorchConfig refuses what no job with ranks of PyTorch has.
func TestTorchConfig(t *testing.T) {
	for text, c := range map[string]pg.Config{
		"how NCCL is called in PyTorch 2.4 is not known":      {Backends: "nccl", Torch: "2.4"},
		"is not a version such as 2.11":                       {Backends: "nccl", Torch: "two"},
		"debug level DETAIL compares calls":                   {Backends: "nccl", Torch: "2.11", Debug: pg.DebugOptions{Level: pg.DebugDetail}},
		"which have gloo or nccl":                             {Backends: "cpu:host", Torch: "2.11"},
		"PyTorch 2.0: its ranks meet in a way that is not kn": {Backends: "cpu:gloo,cuda:nccl", Torch: "2.0"},
	} {
		c.Store, c.Size = store.NewHash(), 1
		_, err := pg.Init(t.Context(), c)
		require.ErrorContains(t, err, text)
	}
}

// TestTorchBoth has Gloo on the CPU beside NCCL on devices.
func TestTorchBoth(t *testing.T) {
	keys, _ := asTorchWith(t, 2, func(c *pg.Config) { c.Backends, c.Interface = "cpu:gloo,cuda:nccl", "127.0.0.1" }, func(r *rank) error {
		x := []float32{1}
		err := errors.Join(r.AllReduce(r.ctx, colligo.Of(x), colligo.Sum), r.Barrier(r.ctx), r.summed(r.Group))
		if x[0] != 2 {
			err = errors.Join(err, fmt.Errorf("the sum on the CPU is %v", x))
		}
		return errors.Join(err, r.BarrierOn(r.ctx, r.device.Place()))
	})
	require.Contains(t, keys, "0//cuda//0")
	require.True(t, slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, "0//cpu//0/") }), "%v", keys)
}

// TestTorchRoots makes one communicator by several identities.
func TestTorchRoots(t *testing.T) {
	keys, library := asTorchBy(t, 5, nccl.Options{RanksPerRoot: 2}, nil, func(r *rank) error { return r.summed(r.Group) })
	require.Equal(t, []string{"0//cuda//UniqueNCCLID:0", "0//cuda//UniqueNCCLID:1", "0//cuda//UniqueNCCLID:2"}, keys)
	require.Equal(t, 5, count(library.Calls(), "ncclCommInitRankScalable"))
}

// TestTorchLost has a rank end itself. The other one names it.
func TestTorchLost(t *testing.T) {
	through := make(chan struct{}) // rank 1 has its sum
	asTorch(t, 2, false, func(r *rank) error {
		if err := r.summed(r.Group); err != nil {
			return err
		}
		if r.Rank() == 1 {
			close(through)
		}
		if r.Rank() == 0 {
			<-through
			r.sim.Break(1, nccl.RemoteError) // as NCCL tells of a peer whose connections have ended
			return nil
		}
		x, err := r.ones(5)
		for err == nil {
			err = r.AllReduceAsync(r.ctx, x, colligo.Max).Synchronize(r.ctx)
		}
		if !errors.Is(err, colligo.ErrPeerLost) || !strings.Contains(err.Error(), "rank 0 is gone, or the network to it has failed") {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	})
}

// TestTorchRefused holds what a job with ranks of PyTorch does not have.
func TestTorchRefused(t *testing.T) {
	asTorch(t, 2, true, func(r *rank) error {
		if err := r.AllReduce(r.ctx, colligo.Of([]float32{1}), colligo.Sum); err == nil || !strings.Contains(err.Error(), "no backend for CPU tensors") {
			return fmt.Errorf("a tensor on the CPU: %w", err)
		}
		if err := r.MonitoredBarrier(r.ctx, 0, false); err == nil || !strings.Contains(err.Error(), "only implemented for GLOO") {
			return fmt.Errorf("a monitored barrier: %w", err)
		}
		if _, err := r.NewGroupWith(r.ctx, []int{0}, pg.GroupOptions{LocalSync: true}); err == nil {
			return errors.New("a local group is taken")
		}
		embedding := sparse.Tensor{Rows: 4, Indices: []int64{1}, Values: colligo.Of([]float32{1, 2}, 1, 2)}
		on, err := r.moved(colligo.Of([]float32{1, 2}))
		if err != nil {
			return err
		}
		for _, values := range []colligo.Tensor{embedding.Values, on.Strided(0, []int{1, 2}, []int{2, 1})} {
			embedding.Values = values
			_, err := sparse.AllReduce(r.ctx, r.Group, embedding, colligo.Sum)
			if err == nil || !strings.Contains(err.Error(), "NCCL does not support all_reduce with sparse tensors") {
				return fmt.Errorf("a sparse tensor: %w", err)
			}
		}
		return r.summed(r.Group)
	})
}
