// Shrink is a job that goes on when a rank dies. The rank with the highest number ends in the middle of the third step. The
// others make a group without it, agree on the step from which all go on, and end their work.
//
//	go run ./cmd/colligo run -n 3 go run ./examples/shrink
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

func main() {
	ctx := context.Background()
	g, err := pg.Init(ctx, pg.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, g); err != nil {
		log.Fatal(err)
	}
}

const (
	steps  = 6
	deadly = 2 // the step in which the last rank of three dies
)

func run(ctx context.Context, g *pg.Group) error {
	victim := g.Rank() == g.Size()-1
	var err error
	for step := 0; step < steps; {
		if victim && step == deadly {
			os.Exit(0) // as after a power cut: without a word to the others
		}
		gradient := []float32{1}
		if err = g.AllReduce(ctx, colligo.Of(gradient), colligo.Sum); err == nil {
			fmt.Printf("rank %d of %d: step %d sums %v\n", g.Rank(), g.Size(), step, gradient[0])
			step++
			continue
		}
		if !errors.Is(err, colligo.ErrPeerLost) {
			break
		}
		if g, err = pg.Regroup(ctx, g); err != nil {
			return err
		}
		if step, err = resume(ctx, g, step); err != nil {
			break
		}
	}
	return errors.Join(err, g.Close())
}

// resume agrees on the first step that some rank has not done: one rank may have met the loss a step before another.
func resume(ctx context.Context, g *pg.Group, step int) (int, error) {
	first := []int64{int64(step)}
	err := g.AllReduce(ctx, colligo.Of(first), colligo.Min)
	return int(first[0]), err
}
