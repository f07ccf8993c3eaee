package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// Gradient descent over all images at once.
const (
	steps = 400
	rate  = 0.5
)

// parameters is the length of a model as a vector.
const parameters = digits * (pixels + 1)

// vector views a model as its numbers.
func vector(m *model) []float64 { return unsafe.Slice(&m[0][0], parameters) }

// train returns the parameters and the mean cross entropy that the last step began with.
func train(ctx context.Context, g *pg.Group, images []image) (*model, float64, error) {
	share := images[len(images)*g.Rank()/g.Size() : len(images)*(g.Rank()+1)/g.Size()]
	var m model
	// One all-reduce a step brings the gradient, and behind it the cross entropy.
	sums := make([]float64, parameters+1)
	for range steps {
		var grad model
		loss := m.gradient(share, &grad)
		copy(sums, vector(&grad))
		sums[parameters] = loss
		if err := g.AllReduce(ctx, colligo.Of(sums), colligo.Sum); err != nil {
			return nil, 0, err
		}
		for i, p := range vector(&m) {
			vector(&m)[i] = p - rate*sums[i]/float64(len(images))
		}
	}
	return &m, sums[parameters] / float64(len(images)), nil
}

// requireEqual compares the bits of the parameters on all ranks: they are equal where the least is the greatest.
func requireEqual(ctx context.Context, g *pg.Group, m *model) error {
	least := make([]int64, parameters)
	for i, p := range vector(m) {
		least[i] = int64(math.Float64bits(p))
	}
	most := slices.Clone(least)
	err := errors.Join(
		g.AllReduce(ctx, colligo.Of(least), colligo.Min),
		g.AllReduce(ctx, colligo.Of(most), colligo.Max))
	if err == nil && !slices.Equal(least, most) {
		err = fmt.Errorf("rank %d: the parameters differ between ranks", g.Rank())
	}
	return err
}
