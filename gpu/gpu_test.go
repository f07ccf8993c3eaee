package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/gpu"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// simPatience is after how long without a move simulated devices find a deadlock. It is longer than a busy machine holds a rank up.
const simPatience = 12 * time.Second

// onAll runs f as two ranks on simulated GPUs, and returns what Run gave each. Check finds memory, streams and contexts that are left.
func onAll(t *testing.T, f func(ctx context.Context, r *gpu.Rank) error) (errs [2]error) {
	t.Helper()
	t.Setenv("COLLIGO_FR_DUMP_TEMP_FILE", t.TempDir()+"/rank_")
	sim := cudasim.New(cudasim.Config{Devices: 2, Patience: simPatience})
	cudasim.Limit(t, sim)
	require.NoError(t, model.Register(sim))
	require.NoError(t, model.RegisterReduction(sim, colligo.Int32, colligo.KindSum))
	ctx, meeting := peer.With(t.Context(), peer.Options{Driver: sim.Driver()}), store.NewHash()
	var ranks sync.WaitGroup
	for rank := range errs {
		ranks.Go(func() {
			c := pg.Config{Rank: rank, Size: len(errs), Store: meeting, Device: colligo.Device{Kind: colligo.CUDA, Index: rank}}
			defer func() {
				if p := recover(); p != nil {
					errs[rank] = fmt.Errorf("panic: %v", p)
				}
			}()
			errs[rank] = gpu.Run(ctx, c, f)
		})
	}
	ranks.Wait()
	cudasim.Check(t, sim)
	return errs
}

// TestRun sums arrays, one of which is freed by hand and one by Run.
func TestRun(t *testing.T) {
	for _, err := range onAll(t, func(ctx context.Context, r *gpu.Rank) error {
		x, err := gpu.ArrayOf(r, []int32{int32(r.Rank()), 2, 3, 4})
		if err != nil {
			return err
		}
		y, err := gpu.NewArray[int32](r, 4)
		if err != nil {
			return err
		}
		require.Equal(t, r.Thread.Place(), x.Tensor().Device())
		require.Equal(t, []int{2, 2}, x.Tensor(2, 2).Shape())
		require.NoError(t, r.AllReduce(ctx, x.Tensor(), colligo.Sum))
		got, err := x.Slice()
		require.NoError(t, err)
		require.Equal(t, []int32{1, 4, 6, 8}, got)
		require.NoError(t, y.Write(got[1:]))
		require.NoError(t, y.Read(got[:1]))
		require.Equal(t, int32(4), got[0])
		require.NoError(t, y.Free())
		require.NoError(t, y.Free())
		require.Zero(t, y.Len())
		return nil
	}) {
		require.NoError(t, err)
	}
}

// TestRunFails returns the program's error and leaves nothing open; the rank that waits hears that the other has closed the group.
func TestRunFails(t *testing.T) {
	failed := errors.New("a reason")
	errs := onAll(t, func(ctx context.Context, r *gpu.Rank) error {
		x, err := gpu.ArrayOf(r, []int32{1})
		if err != nil || r.Rank() == 0 {
			return errors.Join(err, failed)
		}
		return errors.Join(r.Barrier(ctx), r.AllReduce(ctx, x.Tensor(), colligo.Sum))
	})
	require.ErrorIs(t, errs[0], failed)
	require.ErrorContains(t, errs[1], "rank 0")
}

// TestRunPanics aborts the group: the other rank's error says that the program panicked.
func TestRunPanics(t *testing.T) {
	errs := onAll(t, func(ctx context.Context, r *gpu.Rank) error {
		if r.Rank() == 1 {
			return r.Barrier(ctx)
		}
		panic(errors.New("a reason"))
	})
	require.ErrorContains(t, errs[0], "a reason")
	require.ErrorIs(t, errs[1], pg.ErrAborted)
	require.ErrorContains(t, errs[1], "the program panicked")
}

// TestRunNowhere says what is missing: a GPU with that number, and a launcher.
func TestRunNowhere(t *testing.T) {
	sim := cudasim.New(cudasim.Config{})
	cudasim.Limit(t, sim)
	ctx := peer.With(t.Context(), peer.Options{Driver: sim.Driver()})
	require.ErrorContains(t, gpu.Run(ctx, pg.Config{Device: colligo.Device{Kind: colligo.CUDA, Index: 7}}, nil), "cuDeviceGet")
	t.Setenv("LOCAL_RANK", "")
	require.ErrorContains(t, gpu.Run(ctx, pg.Config{}, nil), "gpu: run: pg: local rank")
	c := pg.Config{Device: colligo.Device{Kind: colligo.CUDA}}
	require.ErrorContains(t, gpu.Run(peer.With(ctx, peer.Options{Memory: -1}), c, nil), "gpu: run: options ask for -1 bytes")
	cudasim.Check(t, sim)
}
