package nccl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
)

// within runs f on ranks that may have a fast path, on devices that reach each other or not.
func within(t *testing.T, size int, asked, apart bool, f func(r *rank) error) *ncclsim.Sim {
	t.Helper()
	config := cudasim.Config{Devices: size, Seed: 1, Patience: simPatience}
	if apart {
		config.CanAccess = func(int, int) bool { return false }
	}
	devices := cudasim.New(config)
	cudasim.Limit(t, devices)
	require.NoError(t, model.Register(devices))
	for _, d := range []colligo.DType{colligo.Float32, colligo.Int64} {
		require.NoError(t, model.RegisterReduction(devices, d, colligo.KindSum))
	}
	library := ncclsim.New(devices.Driver(), ncclsim.Version)
	groups, err := pg.InProcess(t.Context(), size, pg.Config{Backends: "cpu:host,cuda:nccl", Timeout: time.Minute})
	require.NoError(t, err)
	errs := make(chan error, size)
	for i, g := range groups {
		go func() {
			ctx := peer.With(t.Context(), peer.Options{Driver: devices.Driver(), Memory: 24 << 20})
			errs <- life(ctx, g, devices.Driver(), library, i, nccl.Options{IntraNode: asked}, f)
		}()
	}
	for range groups {
		require.NoError(t, <-errs)
	}
	require.NoError(t, library.Close())
	devices.Drain()
	require.Empty(t, devices.Races())
	devices.Close()
	return library
}

// mixed calls what the fast path takes and what it does not, in turns: 4 of the one, and 5 of the other.
func (r *rank) mixed() error {
	var errs []error
	for k, n := range []int{1, 500, 3<<20 + 1} { // of which the last is longer than 10 MiB
		errs = append(errs, r.same(fmt.Sprint("sum ", n), []colligo.Tensor{r.numbered(colligo.Float32, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.AllReduce(ctx, ts[0], colligo.Sum)
		}), r.same(fmt.Sprint("maximum ", k), []colligo.Tensor{r.numbered(colligo.Int64, 7)}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.AllReduce(ctx, ts[0], colligo.Max)
		}))
	}
	errs = append(errs, r.same("asynchronous", []colligo.Tensor{r.numbered(colligo.Int64, 9)}, func(ctx context.Context, ts []colligo.Tensor) error {
		first := r.AllReduceAsync(ctx, ts[0], colligo.Sum)
		second := r.AllReduceAsync(ctx, ts[0], colligo.Max)
		third := r.AllReduceAsync(ctx, ts[0], colligo.Sum)
		return errors.Join(first.Wait(ctx), second.Wait(ctx), third.Wait(ctx))
	}))
	return errors.Join(append(errs, r.messages(colligo.Int64), r.BarrierOn(r.ctx, r.device.Place()))...)
}

// TestIntraNode has the backend between GPUs that reach each other carry short sums, and counts what each backend carries.
func TestIntraNode(t *testing.T) {
	for size := 2; size <= 3; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := within(t, size, true, false, func(r *rank) error {
				if err := r.mixed(); err != nil {
					return err
				}
				if got := r.Metrics().Carried; got["peer"] != 4 || got["nccl"] != 5 {
					return fmt.Errorf("the backends have carried %v", got)
				}
				return r.on(func(t cuda.Thread) error { return t.Synchronize(r.stream) })
			})
			require.Equal(t, 5*size, count(s.Calls(), "ncclAllReduce"))
		})
	}
}

// TestIntraNodeNot leaves everything to NCCL where nobody asks, and where the ranks do not reach each other.
func TestIntraNodeNot(t *testing.T) {
	for name, c := range map[string]struct{ asked, apart bool }{"not asked": {false, false}, "apart": {true, true}} {
		t.Run(name, func(t *testing.T) {
			s := within(t, 2, c.asked, c.apart, func(r *rank) error {
				if got := r.Metrics().Carried; got != nil {
					return fmt.Errorf("counts of %v", got)
				}
				return r.mixed()
			})
			require.Equal(t, 9*2, count(s.Calls(), "ncclAllReduce"))
		})
	}
}
