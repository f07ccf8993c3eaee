// Pipeline has one stage of a model on each rank. Micro-batches pass from rank to rank: a stage receives the next while it
// computes, and sends the last while it goes on.
//
//	go run ./cmd/colligo run -n 3 go run ./examples/pipeline
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	err = run(ctx, g, os.Stdout)
	if err := errors.Join(err, g.Close()); err != nil {
		log.Fatal(err)
	}
}

const (
	batches = 4 // that pass through all stages
	width   = 3 // elements of each
)

func run(ctx context.Context, g *pg.Group, out io.Writer) error {
	first, last := g.Rank() == 0, g.Rank() == g.Size()-1
	var receives, sends [batches]*pg.Work
	var memory [batches][]float32
	for b := range batches {
		memory[b] = make([]float32, width)
		if !first { // the tag tells micro-batches apart
			receives[b] = g.RecvAsync(ctx, colligo.Of(memory[b]), g.Rank()-1, b)
		}
	}
	for b, x := range memory {
		if first {
			load(b, x)
		} else if err := receives[b].Wait(ctx); err != nil {
			return fmt.Errorf("micro-batch %d: %w", b, err)
		}
		stage(x)
		if last {
			fmt.Fprintf(out, "micro-batch %d: %v\n", b, x)
		} else {
			sends[b] = g.SendAsync(ctx, colligo.Of(x), g.Rank()+1, b)
		}
	}
	for b, w := range sends { // until then the memory belongs to the sends
		if w == nil {
			continue
		}
		if err := w.Wait(ctx); err != nil {
			return fmt.Errorf("micro-batch %d: %w", b, err)
		}
	}
	return nil
}

// load makes the input of a micro-batch.
func load(b int, x []float32) {
	for i := range x {
		x[i] = float32(10*b + i)
	}
}

// stage is the part of the model that each rank computes.
func stage(x []float32) {
	for i := range x {
		x[i]++
	}
}
