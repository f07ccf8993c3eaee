// Digits trains a softmax regression on 1,797 images of handwritten digits, data-parallel. Every rank takes a share of the
// images. Each step adds up the gradients of all ranks with one all-reduce.
//
//	go run ./cmd/colligo run -n 4 go run ./examples/digits
//
// The result of an all-reduce is bitwise the same on all ranks. So the parameters are, too, without ever being sent; the
// program checks that at the end. The number of ranks only changes the order in which numbers are added up. Parameters of
// runs with different numbers of ranks therefore agree but for rounding.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/colligo-go/colligo/pg"
)

func main() {
	if _, err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run trains as one rank of the group of the environment, and returns the parameters. Rank 0 reports.
func run(ctx context.Context, w io.Writer) (m *model, err error) {
	g, err := pg.Init(ctx, pg.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	images, err := readImages()
	if err != nil {
		return nil, err
	}
	training, test := split(images)
	m, loss, err := train(ctx, g, training)
	if err != nil {
		return nil, err
	}
	if err := requireEqual(ctx, g, m); err != nil {
		return nil, err
	}
	right := m.count(test)
	if g.Rank() == 0 {
		_, err = fmt.Fprintf(w, "%d ranks, %d training images, %d steps\nloss %.6f\ntest accuracy %.2f %% (%d of %d)\nparameters bitwise equal on all ranks\n",
			g.Size(), len(training), steps, loss, 100*float64(right)/float64(len(test)), right, len(test))
	}
	return m, err
}
