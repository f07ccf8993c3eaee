// Gpu sums a tensor on one GPU for each rank. Start it with a launcher, such as
//
//	go run ./cmd/colligo run -n 2 go run ./examples/gpu
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/gpu"
	"github.com/colligo-go/colligo/pg"
)

func main() {
	if err := gpu.Run(context.Background(), pg.Config{}, sum); err != nil {
		log.Fatal(err)
	}
}

func sum(ctx context.Context, r *gpu.Rank) error {
	x, err := gpu.ArrayOf(r, []float32{float32(r.Rank() + 1), 10})
	if err != nil {
		return err
	}
	if err := r.AllReduce(ctx, x.Tensor(), colligo.Sum); err != nil {
		return err
	}
	total, err := x.Slice() // waits for the sum
	fmt.Println("rank", r.Rank(), "of", r.Size(), "on", r.Thread.Place(), "has", total)
	return err
}
