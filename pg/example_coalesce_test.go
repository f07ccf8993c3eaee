package pg_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// onRanks runs f on every rank of a group in this process and prints what rank 0 returns.
func onRanks(size int, f func(ctx context.Context, g *pg.Group) (any, error)) {
	ctx := context.Background()
	groups, err := pg.InProcess(ctx, size, pg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var ranks sync.WaitGroup
	for _, g := range groups {
		ranks.Go(func() {
			defer g.CloseAll()
			if v, err := f(ctx, g); err != nil {
				fmt.Println(err)
			} else if g.Rank() == 0 {
				fmt.Println(v)
			}
		})
	}
	ranks.Wait()
}

// Two gradients are summed and a counter is broadcast, as one operation.
func ExampleGroup_Coalesce() {
	onRanks(4, func(ctx context.Context, g *pg.Group) (any, error) {
		weights, bias, step := []float32{1, 2}, []float32{3}, []int64{int64(10 * g.Rank())}
		err := g.Coalesce(ctx, func(b *pg.Batch) error {
			b.AllReduce(colligo.Of(weights), colligo.Sum)
			b.AllReduce(colligo.Of(bias), colligo.Avg)
			b.Broadcast(colligo.Of(step), 3)
			return nil
		})
		return fmt.Sprint(weights, bias, step), err
	})
	// Output: [4 8] [3] [30]
}
