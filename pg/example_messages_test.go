package pg_test

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// Rank 0 takes a message from the rank that sends first, which here is the only one.
func ExampleGroup_Send() {
	onRanks(2, func(ctx context.Context, g *pg.Group) (any, error) {
		const tag = 7
		if g.Rank() == 1 {
			return nil, g.Send(ctx, colligo.Of([]int64{42}), 0, tag)
		}
		x := []int64{0}
		from, err := g.RecvAny(ctx, colligo.Of(x), tag)
		return fmt.Sprint(x, " from rank ", from), err
	})
	// Output: [42] from rank 1
}

// Every rank sends to the next and receives from the one before, all at once: none waits for another to be ready.
func ExampleBatchIsendIrecv() {
	onRanks(3, func(ctx context.Context, g *pg.Group) (any, error) {
		mine, got, size := []int32{int32(g.Rank())}, []int32{-1}, g.Size()
		works, err := pg.BatchIsendIrecv(ctx, []pg.P2P{
			{Op: pg.Isend, Tensor: colligo.Of(mine), Peer: (g.Rank() + 1) % size, Group: g},
			{Op: pg.Irecv, Tensor: colligo.Of(got), Peer: (g.Rank() + size - 1) % size, Group: g},
		})
		for _, w := range works {
			if err := w.Wait(ctx); err != nil {
				return nil, err
			}
		}
		return got, err
	})
	// Output: [2]
}
