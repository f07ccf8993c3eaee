package main

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
)

// TestSum runs the program's part behind Init on two simulated GPUs.
func TestSum(t *testing.T) {
	sim := cudasim.New(cudasim.Config{Devices: 2})
	cudasim.Limit(t, sim)
	require.NoError(t, model.Register(sim))
	require.NoError(t, model.RegisterReduction(sim, colligo.Float32, colligo.KindSum))
	groups, err := pg.InProcess(t.Context(), 2, pg.Config{})
	require.NoError(t, err)
	var ranks sync.WaitGroup
	for rank, g := range groups {
		ranks.Go(func() {
			device, err := sim.Driver().Device(rank)
			if !assertNoError(t, err) {
				return
			}
			total, err := sum(peer.With(t.Context(), peer.Options{Driver: sim.Driver()}), g, device)
			assertNoError(t, err)
			if total != 3 {
				t.Errorf("rank %d: sum %v", rank, total)
			}
			assertNoError(t, device.Close())
		})
	}
	ranks.Wait()
	cudasim.Check(t, sim)
}

func assertNoError(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}
