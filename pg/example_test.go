package pg_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// Four ranks sum their numbers. In a job of several processes each calls Init in place of InProcess and has one group.
func Example() {
	groups, err := pg.InProcess(context.Background(), 4, pg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sums := make([]float32, len(groups))
	var ranks sync.WaitGroup
	for _, g := range groups {
		ranks.Go(func() {
			x := []float32{float32(g.Rank()), 10}
			if err := g.AllReduce(context.Background(), colligo.Of(x), colligo.Sum); err != nil {
				fmt.Println(err)
			}
			sums[g.Rank()] = x[0] + x[1]
			if err := g.Close(); err != nil {
				fmt.Println(err)
			}
		})
	}
	ranks.Wait()
	fmt.Println(sums)
	// Output: [46 46 46 46]
}

// An operation is started, other work is done, and then its result is awaited.
func ExampleGroup_AllGatherIntoTensorAsync() {
	groups, err := pg.InProcess(context.Background(), 2, pg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, outs := context.Background(), [2][]int32{{0, 0}, {0, 0}}
	var works []*pg.Work
	for rank, g := range groups {
		works = append(works, g.AllGatherIntoTensorAsync(ctx, colligo.Of(outs[rank]), colligo.Of([]int32{int32(rank + 1)})))
	}
	for rank, w := range works {
		fmt.Println(rank, outs[rank], w.Wait(ctx))
	}
	for _, g := range groups {
		if err := g.Close(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 0 [1 2] <nil>
	// 1 [1 2] <nil>
}

// A callback is chained to an operation, and a hook hears of each operation that has ended.
func ExampleWork_Then() {
	onRanks(2, func(ctx context.Context, g *pg.Group) (any, error) {
		var heard []string
		g.OnCompletion(func(w pg.WorkInfo) { heard = append(heard, fmt.Sprint(w.Op, " ", w.Seq)) })
		x, norm := []float64{3, 4}, 0.0
		sum := g.AllReduceAsync(ctx, colligo.Of(x), colligo.Avg)
		done := sum.Then(func(w *pg.Work) error {
			norm = math.Hypot(x[0], x[1])
			return w.Err()
		})
		if err := errors.Join(done.Wait(ctx), g.WaitPending(ctx)); err != nil {
			return nil, err
		}
		return fmt.Sprint(norm, heard), nil
	})
	// Output: 5 [ALLREDUCE 1]
}
