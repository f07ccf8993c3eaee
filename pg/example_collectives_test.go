package pg_test

import (
	"context"
	"errors"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// The gradients of three ranks are averaged.
func ExampleGroup_AllReduce() {
	onRanks(3, func(ctx context.Context, g *pg.Group) (any, error) {
		gradient := []float32{float32(3 * g.Rank()), 6}
		err := g.AllReduce(ctx, colligo.Of(gradient), colligo.Avg)
		return gradient, err
	})
	// Output: [3 6]
}

// Rank 1 has the parameters; the others get them.
func ExampleGroup_Broadcast() {
	onRanks(3, func(ctx context.Context, g *pg.Group) (any, error) {
		parameters := make([]float64, 2)
		if g.Rank() == 1 {
			parameters = []float64{0.5, 0.25}
		}
		err := g.Broadcast(ctx, colligo.Of(parameters), 1)
		return parameters, err
	})
	// Output: [0.5 0.25]
}

// The largest loss comes to rank 0; the others keep theirs.
func ExampleGroup_Reduce() {
	onRanks(4, func(ctx context.Context, g *pg.Group) (any, error) {
		loss := []float64{float64(g.Rank()) / 2}
		err := g.Reduce(ctx, colligo.Of(loss), 0, colligo.Max)
		return loss, err
	})
	// Output: [1.5]
}

// Rank 0 hands out a row to each rank, which squares it. Rank 0 then collects what the ranks have.
func ExampleGroup_Scatter() {
	onRanks(2, func(ctx context.Context, g *pg.Group) (any, error) {
		var rows, squares []colligo.Tensor
		results := []int32{0, 0}
		if g.Rank() == 0 {
			rows = []colligo.Tensor{colligo.Of([]int32{3}), colligo.Of([]int32{4})}
			squares = []colligo.Tensor{colligo.Of(results[:1]), colligo.Of(results[1:])}
		}
		row := []int32{0}
		err := g.Scatter(ctx, colligo.Of(row), rows, 0)
		row[0] *= row[0]
		return results, errors.Join(err, g.Gather(ctx, squares, colligo.Of(row), 0))
	})
	// Output: [9 16]
}

// Rank 1 has nothing to give, and rank 2 most.
func ExampleGroup_GatherV() {
	onRanks(3, func(ctx context.Context, g *pg.Group) (any, error) {
		words := []string{"a", "", "bcd"}
		counts, all := []int{1, 0, 3}, make([]byte, 4)
		var outs []colligo.Tensor
		if g.Rank() == 0 {
			outs = []colligo.Tensor{colligo.Of(all[:1]), colligo.Of(all[1:1]), colligo.Of(all[1:])}
		}
		err := g.GatherV(ctx, outs, colligo.Of([]byte(words[g.Rank()])), counts, 0)
		return string(all), err
	})
	// Output: abcd
}

// Each rank gets the sum of one part and works on it; then all get all parts. Each call works in place.
func ExampleGroup_ReduceScatterTensor() {
	onRanks(2, func(ctx context.Context, g *pg.Group) (any, error) {
		x := []float32{1, 2, 3, 4}
		part := x[2*g.Rank():][:2]
		err := g.ReduceScatterTensor(ctx, colligo.Of(part), colligo.Of(x), colligo.Sum)
		part[0] = -part[0]
		return x, errors.Join(err, g.AllGatherIntoTensor(ctx, colligo.Of(x), colligo.Of(part)))
	})
	// Output: [-2 4 -6 8]
}

// Every rank tells every rank something else; rank 0 sends one element more to rank 1.
func ExampleGroup_AllToAllSingle() {
	onRanks(2, func(ctx context.Context, g *pg.Group) (any, error) {
		in := [][]int32{{0, 1, 2}, {10, 11}}[g.Rank()]
		to, from := [][]int{{1, 2}, {1, 1}}[g.Rank()], [][]int{{1, 1}, {2, 1}}[g.Rank()]
		out := make([]int32, from[0]+from[1])
		err := g.AllToAllSingle(ctx, colligo.Of(out), colligo.Of(in), from, to)
		return out, err
	})
	// Output: [0 10]
}
