package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// A hook hears of each operation, and counters tell what was done.
func ExampleGroup_OnCompletion() {
	onRanks(2, func(ctx context.Context, g *pg.Group) (any, error) {
		var heard []pg.OpType
		g.OnCompletion(func(w pg.WorkInfo) { heard = append(heard, w.Op) })
		x := colligo.Of(make([]float32, 256))
		err := errors.Join(g.AllReduce(ctx, x, colligo.Sum), g.AllReduce(ctx, x, colligo.Max), g.Broadcast(ctx, x, 0), g.WaitPending(ctx))
		sums := g.Metrics().Ops["ALLREDUCE"]
		return fmt.Sprintf("%v, %d all-reduces of %d bytes together", heard, sums.Done, sums.Bytes), err
	})
	// Output: [ALLREDUCE ALLREDUCE BROADCAST], 2 all-reduces of 2048 bytes together
}

// The flight recorder remembers what was called, with shapes and how it ended.
func ExampleGroup_Dump() {
	onRanks(2, func(ctx context.Context, g *pg.Group) (any, error) {
		err := g.AllGatherIntoTensor(ctx, colligo.Of(make([]float32, 6), 2, 3), colligo.Of(make([]float32, 3)))
		e := g.Dump(flight.DumpOptions{Entries: true}).Entries[0]
		return fmt.Sprint(e.Name, " ", e.InSizes, " to ", e.OutSizes, " ", e.State), err
	})
	// Output: nccl:_all_gather_base [[3]] to [[2 3]] completed
}

// Rank 1 does not call the barrier in time. The call of rank 0 fails, and with it the group: the error names rank 1.
func ExampleGroup_SetTimeout() {
	onRanks(2, func(ctx context.Context, g *pg.Group) (any, error) {
		if g.Rank() == 1 {
			for g.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			return nil, nil
		}
		if err := g.SetTimeout(50 * time.Millisecond); err != nil {
			return nil, err
		}
		err := g.Barrier(ctx) // such as "barrier #1: rank 1 has not entered after 50ms; rank 0 waits [rank 0 of group 0]"
		return fmt.Sprint(errors.Is(err, colligo.ErrTimeout), ", ", strings.HasPrefix(err.Error(), "barrier #1: rank 1 ")), nil
	})
	// Output: true, true
}

// Rank 1 is late for a monitored barrier. The error names it, and the group goes on.
func ExampleGroup_MonitoredBarrier() {
	onRanks(2, func(ctx context.Context, g *pg.Group) (any, error) {
		why := ""
		if g.Rank() == 0 {
			err := g.MonitoredBarrier(ctx, 50*time.Millisecond, true)
			why, _, _ = strings.Cut(err.Error(), " after")
		}
		return why, g.Barrier(ctx)
	})
	// Output: monitored_barrier #1: rank 1 has not come
}
