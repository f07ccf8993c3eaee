package gpu_test

import (
	"context"
	"fmt"
	"log"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/gpu"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// A job of one rank on a simulated GPU. On a machine with a GPU the context is context.Background() and the configuration is empty.
func ExampleRun() {
	sim := cudasim.New(cudasim.Config{})
	if err := model.Register(sim); err != nil {
		log.Fatal(err)
	}
	ctx := peer.With(context.Background(), peer.Options{Driver: sim.Driver()})
	alone := pg.Config{Size: 1, Store: store.NewHash(), Device: colligo.Device{Kind: colligo.CUDA}}
	if err := gpu.Run(ctx, alone, func(ctx context.Context, r *gpu.Rank) error {
		x, err := gpu.ArrayOf(r, []float32{1, 2, 3})
		if err != nil {
			return err
		}
		if err := r.AllReduce(ctx, x.Tensor(), colligo.Sum); err != nil {
			return err
		}
		total, err := x.Slice()
		fmt.Println(r.Thread.Place(), total)
		return err
	}); err != nil {
		log.Fatal(err)
	}
	// Output: cuda:0 [1 2 3]
}
