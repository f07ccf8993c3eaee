// Subgroups is a job of two kinds of parallelism. Its ranks form a grid. The ranks of a row share one model, and sum their
// parts of each layer. The ranks of a column have the same part of the model, and average gradients.
//
//	go run ./cmd/colligo run -n 4 go run ./examples/subgroups
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
	if err := errors.Join(err, g.CloseAll()); err != nil { // the groups made of g, too
		log.Fatal(err)
	}
}

// width is how many ranks share one model.
const width = 2

func run(ctx context.Context, g *pg.Group, out io.Writer) error {
	// Ranks of one color make a group; each rank says only where it belongs itself.
	row, err := g.SplitByColor(ctx, g.Rank()/width, g.Rank(), pg.GroupOptions{})
	if err != nil {
		return err
	}
	column, err := g.SplitByColor(ctx, g.Rank()%width, g.Rank(), pg.GroupOptions{})
	if err != nil {
		return err
	}
	layer := []float32{float32(g.Rank())}
	gradient := []float32{float32(g.Rank())}
	if err := row.AllReduce(ctx, colligo.Of(layer), colligo.Sum); err != nil {
		return err
	}
	if err := column.AllReduce(ctx, colligo.Of(gradient), colligo.Avg); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "rank %d: row %v has %v, column %v has %v\n", g.Rank(), row.Ranks(), layer, column.Ranks(), gradient)
	return err
}
