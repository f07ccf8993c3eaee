package pg_test

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// sumOfRanks sums the ranks of the default group within a group.
func sumOfRanks(ctx context.Context, g *pg.Group) (int64, error) {
	me, err := g.GlobalRank(g.Rank())
	x := []int64{int64(me)}
	if err == nil {
		err = g.AllReduce(ctx, colligo.Of(x), colligo.Sum)
	}
	return x[0], err
}

// Two ranks that follow one another make a group, as those of one machine do.
func ExampleGroup_NewSubgroups() {
	onRanks(4, func(ctx context.Context, g *pg.Group) (any, error) {
		mine, all, err := g.NewSubgroups(ctx, 2, pg.GroupOptions{})
		if err != nil {
			return nil, err
		}
		sum, err := sumOfRanks(ctx, mine)
		return fmt.Sprint(mine.Ranks(), " of ", len(all), " groups: ", sum), err
	})
	// Output: [0 1] of 2 groups: 1
}

// Ranks of one colour make a group; their keys turn the order round.
func ExampleGroup_SplitByColor() {
	onRanks(5, func(ctx context.Context, g *pg.Group) (any, error) {
		even, err := g.SplitByColor(ctx, g.Rank()%2, -g.Rank(), pg.GroupOptions{})
		if err != nil {
			return nil, err
		}
		sum, err := sumOfRanks(ctx, even)
		return fmt.Sprint(even.Ranks(), " ", sum), err
	})
	// Output: [4 2 0] 6
}

// Rank 2 gives up. The others go on without it, though its going has ended the group.
func ExampleGroup_Shrink() {
	onRanks(3, func(ctx context.Context, g *pg.Group) (any, error) {
		if g.Rank() == 2 {
			g.Abort(fmt.Errorf("no memory"))
			return nil, nil
		}
		err := g.Barrier(ctx)
		rest, failed := g.Shrink(ctx, 2)
		if failed != nil {
			return nil, failed
		}
		sum, failed := sumOfRanks(ctx, rest)
		return fmt.Sprint(err != nil, " ", rest, ": ", sum), failed
	})
	// Output: true group 0@1: rank 0 of 2 over sim: 1
}
