// Package average is how a module that uses colligo is tested. Package pgtest runs all ranks in one test process, on virtual time
// and with faults that repeat. The package keeps a running mean over the ranks of a job. It starts nothing and closes nothing.
package average

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// Mean is the mean of all numbers that the ranks of a group have added.
type Mean struct {
	sum   float64
	count float64
}

// Add adds a number of this rank.
func (m *Mean) Add(x float64) {
	m.sum += x
	m.count++
}

// Over returns the mean over all ranks. Every rank calls it. With no numbers at all it is an error.
func (m *Mean) Over(ctx context.Context, g *pg.Group) (float64, error) {
	x := []float64{m.sum, m.count}
	if err := g.AllReduce(ctx, colligo.Of(x), colligo.Sum); err != nil {
		return 0, fmt.Errorf("average: %w", err)
	}
	if x[1] == 0 {
		return 0, fmt.Errorf("average: %d ranks have no numbers", g.Size())
	}
	return x[0] / x[1], nil
}
