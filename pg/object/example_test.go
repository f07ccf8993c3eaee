package object_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
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
			defer g.Close()
			if v, err := f(ctx, g); err != nil {
				fmt.Println(err)
			} else if g.Rank() == 0 {
				fmt.Println(v)
			}
		})
	}
	ranks.Wait()
}

// Every rank tells the others where it runs.
func ExampleAllGather() {
	type place struct{ Host, Device string }
	onRanks(2, func(ctx context.Context, g *pg.Group) (any, error) {
		return object.AllGather(ctx, g, object.JSON, place{fmt.Sprint("host", g.Rank()), "cpu"})
	})
	// Output: [{host0 cpu} {host1 cpu}]
}
