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
	devices := cudasim.New(cudasim.Config{Devices: size, Seed: 1})
	library := ncclsim.New(devices.Driver(), ncclsim.Version)
	s := &keysStore{Store: store.NewHash()}
	errs := make([]error, size)
	var all sync.WaitGroup
	for i := range size {
		all.Go(func() { errs[i] = torchLife(t.Context(), s, devices.Driver(), library, i, size, eager, f) })
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
func torchLife(ctx context.Context, s store.Store, d *cuda.Driver, sim *ncclsim.Sim, i, size int, eager bool, f func(r *rank) error) error {
	o := nccl.Options{Driver: d}
	var err error
	if o.Library, err = sim.Library(); err != nil {
		return err
	}
	r := &rank{}
	if r.device, err = d.Device(i); err != nil {
		return err
	}
	if err = r.on(func(t cuda.Thread) (err error) { r.stream, err = t.NewStream(0); return err }); err != nil {
		return err
	}
	r.ctx = nccl.With(streamorder.OnStream(ctx, r.stream), o)
	c := pg.Config{Backends: "nccl", Torch: "2.11", Store: s, Rank: i, Size: size, Timeout: 10 * time.Second,
		Recorder: pg.RecorderOptions{DumpOnError: pg.Off}}
	if eager {
		c.Device = r.device.Place()
	}
	if r.Group, err = pg.Init(r.ctx, c); err != nil {
		return err
	}
	if err := f(r); err != nil {
		r.Abort(err)
		return fmt.Errorf("rank %d: %w", i, errors.Join(err, r.CloseAll()))
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
		return r.summed(r.Group)
	})
}
