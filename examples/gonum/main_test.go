package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestFitted finds on each rank the line that one rank finds in the points of all.
func TestFitted(t *testing.T) {
	const ranks, count = 4, 200
	rows, y := mat.NewDense(ranks*count, 2, nil), mat.NewVecDense(ranks*count, nil)
	for rank := range ranks {
		r, v := points(rank, count)
		rows.Slice(rank*count, (rank+1)*count, 0, 2).(*mat.Dense).Copy(r)
		y.SliceVec(rank*count, (rank+1)*count).(*mat.VecDense).CopyVec(v)
	}
	var alone mat.VecDense
	require.NoError(t, alone.SolveVec(rows, y))
	fits := make([]*mat.VecDense, ranks)
	pgtest.Run(t, ranks, func(t *testing.T, g *pg.Group) {
		fit, err := fitted(t.Context(), g, count)
		require.NoError(t, err)
		fits[g.Rank()] = fit
	})
	for _, fit := range fits {
		require.True(t, mat.EqualApprox(&alone, fit, 1e-9))
		require.Equal(t, fits[0].RawVector().Data, fit.RawVector().Data, "to the last bit")
		require.InDelta(t, 1, fit.AtVec(0), 0.05)
		require.InDelta(t, 2, fit.AtVec(1), 0.05)
	}
}

// TestTensorOfView refuses a matrix with gaps.
func TestTensorOfView(t *testing.T) {
	_, err := tensor(mat.NewDense(3, 4, nil).Slice(0, 3, 1, 3).(*mat.Dense))
	require.ErrorContains(t, err, "2 columns whose rows are 4 apart")
	x, err := tensor(mat.NewDense(3, 4, nil))
	require.NoError(t, err)
	require.Equal(t, []int{3, 4}, x.Shape())
}
