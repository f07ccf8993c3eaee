// Stuck is a program with a mistake, for docs/debugging.md. Rank 1 has fewer batches than the others, and waits for one that never
// comes. The other ranks wait for rank 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

func main() {
	ctx := context.Background()
	g, err := pg.Init(ctx, pg.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = train(ctx, g)
	if err := errors.Join(err, g.Close()); err != nil { // Close waits until the dump is written
		log.Fatal(err)
	}
}

func train(ctx context.Context, g *pg.Group) error {
	batches := load(g.Rank())
	for step := range 6 {
		gradient := <-batches
		if err := g.AllReduce(ctx, colligo.Of(gradient), colligo.Avg); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return nil
}

// load makes batches in the background. It forgets to close the channel.
func load(rank int) <-chan []float32 {
	batches := make(chan []float32)
	n := 6
	if rank == 1 {
		n = 3
	}
	go func() {
		for range n {
			batches <- make([]float32, 1000)
		}
	}()
	return batches
}
