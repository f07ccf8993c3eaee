package sparse_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/sparse"
)

// Two ranks have gradients of some rows of an embedding; row 7 is in both.
func ExampleAllReduce() {
	ctx := context.Background()
	groups, err := pg.InProcess(ctx, 2, pg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var ranks sync.WaitGroup
	for _, g := range groups {
		ranks.Go(func() {
			defer g.Close()
			rows, values := []int64{int64(3 * g.Rank()), 7}, []float32{1, 2, 3, 4}
			sum, err := sparse.AllReduce(ctx, g, sparse.Tensor{Rows: 10, Indices: rows, Values: colligo.Of(values, 2, 2)}, colligo.Sum)
			if g.Rank() == 0 {
				all := make([]float32, sum.Values.Len())
				copy(colligo.Of(all).CPUBytes(), sum.Values.CPUBytes())
				fmt.Println(sum.Indices, all, err)
			}
		})
	}
	ranks.Wait()
	// Output: [0 3 7] [1 2 1 2 6 8] <nil>
}
