// Hook trains with gradients that a hook of its own sends. As training on private data does, it adds noise to each
// rank's gradients before they are averaged.
//
//	go run ./cmd/colligo run -n 2 go run ./examples/hook
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
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

// noisy is a hook. The noise is added in place, and the mean of all ranks takes the place of the gradients.
type noisy struct {
	random  *rand.Rand
	scale   float64
	buckets int
}

func (n *noisy) hook(ctx context.Context, g *pg.Group, b *ddp.Bucket) (*ddp.Future, error) {
	n.buckets++
	gradients := colligo.Elements[float32](b.Buffer)
	for i := range gradients {
		gradients[i] += float32(n.scale * n.random.NormFloat64())
	}
	return ddp.AllReduce(ctx, g, b) // any collective of the group would do, the same on all ranks
}

const (
	steps = 200
	rate  = 0.1
)

// run finds the mean of all ranks' numbers by descent: each rank's gradient points to its own.
func run(ctx context.Context, g *pg.Group, out io.Writer) error {
	n := &noisy{random: rand.New(rand.NewPCG(1, uint64(g.Rank()))), scale: 0.01}
	weight, gradient := float32(0), make([]float32, 1)
	r, err := ddp.New(ctx, g, []ddp.Parameter{{Name: "weight", Grad: colligo.Of(gradient)}}, ddp.Options{Hook: n.hook})
	if err != nil {
		return err
	}
	for range steps {
		gradient[0] = weight - float32(g.Rank())
		if err := r.Ready(ctx, 0); err != nil { // as soon as backward has computed it
			return err
		}
		if err := r.Finish(ctx); err != nil {
			return err
		}
		weight -= rate * gradient[0]
	}
	_, err = fmt.Fprintf(out, "rank %d: weight %.1f after %d buckets\n", g.Rank(), weight, n.buckets)
	return err
}
