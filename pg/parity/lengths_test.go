package parity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// TestLengthsDifferOnce has a rank call one collective with another length, and all ranks call the same before it and afterwards. On devices
// the kernels may end all the same, with wrong results, and nothing waits. Every rank's group fails, and says what has gone before.
func TestLengthsDifferOnce(t *testing.T) {
	beside(t)
	calls := map[string]func(r *rank, n int) error{
		"all_reduce": func(r *rank, n int) error { return r.AllReduce(r.ctx, full(r, n, float32(1)), colligo.Sum) },
		"broadcast":  func(r *rank, n int) error { return r.Broadcast(r.ctx, full(r, n, float32(1)), 0) },
		"all_gather": func(r *rank, n int) error {
			return r.AllGatherIntoTensor(r.ctx, full(r, n*r.Size(), float32(0)), full(r, n, float32(1)))
		},
	}
	for name, call := range calls {
		for _, n := range []int{1, 100, 3000, 70_000} {
			t.Run(fmt.Sprintf("call=%s/elements=%d", name, n), func(t *testing.T) {
				beside(t)
				each(t, 2+n%3, func(r *rank) {
					x := full(r, 10, float32(1))
					again := func() error { return r.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(context.Background()) }
					require.NoError(r.t, again())
					r.meet("summed") // a failure may end a collective that a rank has yet to see completed
					n := n
					if r.Rank() == r.Size()-1 {
						n++
					}
					for err := call(r, n); err == nil; {
						err = again()
					}
					<-r.failed()
					require.ErrorIs(r.t, r.Err(), colligo.ErrMismatch)
					require.True(r.t, slices.ContainsFunc([]string{"called " + name + " #2 (", "called different collectives on devices, in one of those up to #"},
						func(says string) bool { return strings.Contains(r.Err().Error(), says) }), "%v", r.Err())
				})
			})
		}
	}
}

// TestLengthsDifferLast has two ranks call different lengths in their last collective, and close with a barrier.
func TestLengthsDifferLast(t *testing.T) {
	o := options{config: func(_ int, c *pg.Config) { c.CloseBarrier = pg.On }}
	eachWith(t, 2, o, func(r *rank) {
		r.summed()
		r.meet("summed")
		_ = r.AllReduceAsync(r.ctx, full(r, 1+r.Rank(), float32(1)), colligo.Sum).Synchronize(context.Background())
		_ = r.Close()
		require.ErrorIs(r.t, r.Err(), colligo.ErrMismatch)
	})
}
