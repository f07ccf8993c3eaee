// Gonum fits a line through points that are spread over the ranks, with matrices of gonum. A matrix's numbers lie in one slice, so a
// tensor of them needs no copy. Each rank makes the normal equations of its own points, and solves the sum over all ranks.
//
//	go run ./cmd/colligo run -n 4 go run ./examples/gonum
//
// It is a module of its own, so that the library needs nothing of gonum.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

func main() {
	ctx := context.Background()
	g, err := pg.Init(ctx, pg.Config{})
	if err != nil {
		log.Fatal(err)
	}
	fit, err := fitted(ctx, g, 1000)
	if err == nil && g.Rank() == 0 {
		fmt.Printf("%d ranks: y = %.3f x + %.3f\n", g.Size(), fit.AtVec(1), fit.AtVec(0))
	}
	if err := errors.Join(err, g.Close()); err != nil {
		log.Fatal(err)
	}
}

// points returns a rank's own points near the line y = 2 x + 1, as rows 1, x, and their y.
func points(rank, count int) (rows *mat.Dense, y *mat.VecDense) {
	random := rand.New(rand.NewPCG(1, uint64(rank)))
	rows, y = mat.NewDense(count, 2, nil), mat.NewVecDense(count, nil)
	for i := range count {
		x := 10 * random.Float64()
		rows.SetRow(i, []float64{1, x})
		y.SetVec(i, 2*x+1+0.1*random.NormFloat64())
	}
	return rows, y
}

// fitted returns intercept and slope of the line through the points of all ranks. They are the same on all ranks to the last bit.
func fitted(ctx context.Context, g *pg.Group, count int) (*mat.VecDense, error) {
	rows, y := points(g.Rank(), count)
	var squares mat.Dense
	squares.Mul(rows.T(), rows)
	var right mat.VecDense
	right.MulVec(rows.T(), y)
	a, err := tensor(&squares)
	if err != nil {
		return nil, err
	}
	if err := g.AllReduce(ctx, a, colligo.Sum); err != nil {
		return nil, err
	}
	if err := g.AllReduce(ctx, colligo.Of(right.RawVector().Data), colligo.Sum); err != nil {
		return nil, err
	}
	var fit mat.VecDense
	err = fit.SolveVec(&squares, &right)
	return &fit, err
}

// tensor is a matrix's own memory, with its shape. A view of a part of a larger matrix has gaps between its rows and is refused.
func tensor(m *mat.Dense) (colligo.Tensor, error) {
	raw := m.RawMatrix()
	if raw.Stride != raw.Cols {
		return colligo.Tensor{}, fmt.Errorf("a matrix of %d columns whose rows are %d apart", raw.Cols, raw.Stride)
	}
	return colligo.Of(raw.Data, raw.Rows, raw.Cols), nil
}
