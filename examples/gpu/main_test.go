package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
)

// TestSum runs the program's part behind Init on two simulated GPUs, by the same helper.
func TestSum(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func(was *os.File) { os.Stdout = was }(os.Stdout)
	os.Stdout = w
	sim := cudasim.New(cudasim.Config{Devices: 2})
	cudasim.Limit(t, sim)
	require.NoError(t, model.Register(sim))
	require.NoError(t, model.RegisterReduction(sim, colligo.Float32, colligo.KindSum))
	groups, err := pg.InProcess(t.Context(), 2, pg.Config{})
	require.NoError(t, err)
	var ranks sync.WaitGroup
	for rank, g := range groups {
		ranks.Go(func() {
			if err := sim.Driver().OnDevice(rank, func(th cuda.Thread, s cuda.Stream) error {
				return sum(peer.OnStream(peer.With(t.Context(), peer.Options{Driver: sim.Driver()}), s), g, th, s)
			}); err != nil {
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
		require.Contains(t, string(out), fmt.Sprintf("rank %d of 2 on cuda:%[1]d has [3 20] <nil>\n", rank))
	}
}
