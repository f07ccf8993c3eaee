package store_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/colligo-go/colligo/store"
)

// Ranks exchange addresses: each sets its own and gets the others', in any order.
func Example() {
	const size = 3
	ctx := context.Background()
	shared := store.NewPrefix("mesh", store.NewHash())
	found := make([]string, size)
	var all sync.WaitGroup
	for rank := range size {
		all.Go(func() {
			if err := shared.Set(ctx, fmt.Sprint(rank), fmt.Appendf(nil, "10.0.0.%d", rank)); err != nil {
				found[rank] = err.Error()
				return
			}
			next, err := shared.Get(ctx, fmt.Sprint((rank+1)%size))
			found[rank] = fmt.Sprintf("rank %d finds its neighbour at %s, error %v", rank, next, err)
		})
	}
	all.Wait()
	for _, line := range found {
		fmt.Println(line)
	}
	// Output:
	// rank 0 finds its neighbour at 10.0.0.1, error <nil>
	// rank 1 finds its neighbour at 10.0.0.2, error <nil>
	// rank 2 finds its neighbour at 10.0.0.0, error <nil>
}
