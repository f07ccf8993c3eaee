package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/gpu"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// TestSum runs the program on two simulated GPUs: all but main, which gives Run no rank, no store and no driver.
func TestSum(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func(was *os.File) { os.Stdout = was }(os.Stdout)
	os.Stdout = w
	sim := cudasim.New(cudasim.Config{Devices: 2})
	cudasim.Limit(t, sim)
	require.NoError(t, model.Register(sim))
	require.NoError(t, model.RegisterReduction(sim, colligo.Float32, colligo.KindSum))
	ctx, meeting := peer.With(t.Context(), peer.Options{Driver: sim.Driver()}), store.NewHash()
	var ranks sync.WaitGroup
	for rank := range 2 {
		ranks.Go(func() {
			c := pg.Config{Rank: rank, Size: 2, Store: meeting, Device: colligo.Device{Kind: colligo.CUDA, Index: rank}}
			if err := gpu.Run(ctx, c, sum); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	ranks.Wait()
	cudasim.Check(t, sim)
	require.NoError(t, w.Close())
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	for rank := range 2 {
		require.Contains(t, string(out), fmt.Sprintf("rank %d of 2 on cuda:%[1]d has [3 20]\n", rank))
	}
}
