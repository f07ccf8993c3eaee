package ddp_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
)

// Two ranks compute gradients of a layer and end the step with their mean.
func Example() {
	ctx := context.Background()
	groups, err := pg.InProcess(ctx, 2, pg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	means := make([]string, len(groups))
	train := func(g *pg.Group) error {
		weight, bias := make([]float32, 2), make([]float32, 1)
		r, err := ddp.New(ctx, g, []ddp.Parameter{{Name: "weight", Grad: colligo.Of(weight)}, {Name: "bias", Grad: colligo.Of(bias)}}, ddp.Options{})
		if err != nil {
			return err
		}
		bias[0] = float32(g.Rank())
		if err := r.Ready(ctx, 1); err != nil {
			return err
		}
		weight[0], weight[1] = 1, float32(10*g.Rank())
		if err := r.Ready(ctx, 0); err != nil {
			return err
		}
		err = r.Finish(ctx)
		means[g.Rank()] = fmt.Sprint(weight, bias)
		return err
	}
	var ranks sync.WaitGroup
	for _, g := range groups {
		ranks.Go(func() {
			defer g.Close()
			if err := train(g); err != nil {
				fmt.Println(err)
			}
		})
	}
	ranks.Wait()
	fmt.Println(means)
	// Output: [[1 5] [0.5] [1 5] [0.5]]
}

// A hook halves what travels: gradients are sent as bfloat16. A hook of one's own gets a bucket and returns the future of its mean.
func ExampleCompress() {
	ctx := context.Background()
	groups, err := pg.InProcess(ctx, 2, pg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	buckets, means := make([]int, len(groups)), make([][]float32, len(groups))
	train := func(g *pg.Group) error {
		count := func(ctx context.Context, g *pg.Group, b *ddp.Bucket) (*ddp.Future, error) {
			buckets[g.Rank()] += b.Buffer.Len()
			return ddp.AllReduce(ctx, g, b)
		}
		gradient := []float32{float32(g.Rank()), 3}
		r, err := ddp.New(ctx, g, []ddp.Parameter{{Name: "weight", Grad: colligo.Of(gradient)}},
			ddp.Options{Hook: ddp.Compress(colligo.BFloat16, count)})
		if err != nil {
			return err
		}
		if err := r.Ready(ctx, 0); err != nil {
			return err
		}
		err = r.Finish(ctx)
		means[g.Rank()] = gradient
		return err
	}
	var ranks sync.WaitGroup
	for _, g := range groups {
		ranks.Go(func() {
			defer g.Close()
			if err := train(g); err != nil {
				fmt.Println(err)
			}
		})
	}
	ranks.Wait()
	fmt.Println(means, buckets)
	// Output: [[0.5 3] [0.5 3]] [2 2]
}
