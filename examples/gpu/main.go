// Gpu sums a tensor on one GPU for each rank. Start it with a launcher, such as
//
//	go run ./cmd/colligo run -n 2 go run ./examples/gpu
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
)

func main() {
	ctx := context.Background()
	if err := cuda.OnDevice(pg.LocalRank, func(t cuda.Thread, s cuda.Stream) error {
		g, err := pg.Init(ctx, pg.Config{Device: t.Place()})
		if err != nil {
			return err
		}
		return sum(peer.OnStream(ctx, s), g, t, s)
	}); err != nil {
		log.Fatal(err)
	}
}

func sum(ctx context.Context, g *pg.Group, t cuda.Thread, s cuda.Stream) error {
	total := []float32{float32(g.Rank() + 1), 10}
	x, err := cuda.ArrayOf(t, total, s)
	if err == nil {
		err = errors.Join(g.AllReduce(ctx, x.Tensor(), colligo.Sum), x.Read(t, total, s))
	}
	fmt.Println("rank", g.Rank(), "of", g.Size(), "on", t.Place(), "has", total, err)
	return errors.Join(err, g.Close(), x.Free(t)) // in this order: a group uses memory till its end
}
