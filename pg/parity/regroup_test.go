package parity

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// TestRegroup has a rank close the group and say so in the store, or end the group for a reason of its own. The others meet that reason
// in their next collective. They regroup, and their sums are right.
func TestRegroup(t *testing.T) {
	beside(t)
	for _, way := range []string{"closes", "aborts"} {
		for _, leaver := range []int{1, 2} { // rank 0's store remains
			t.Run(fmt.Sprintf("rank=%d/%s", leaver, way), func(t *testing.T) {
				eachWith(t, 3, options{waits: true}, func(r *rank) {
					r.summed()
					if r.Rank() == leaver {
						require.NoError(r.t, r.Store().Wait(r.t.Context(), fmt.Sprint("summed", 0), fmt.Sprint("summed", 3-leaver)))
					}
					require.NoError(r.t, r.Store().Set(r.t.Context(), fmt.Sprint("summed", r.Rank()), nil))
					switch {
					case r.Rank() == leaver && way == "closes":
						require.NoError(r.t, r.Close())
						require.NoError(r.t, r.Store().Set(r.t.Context(), "left", nil))
						return
					case r.Rank() == leaver:
						r.Abort(errors.New("this rank is of no use"))
						return
					case way == "closes":
						require.NoError(r.t, r.Store().Wait(r.t.Context(), "left"))
					default:
						_ = r.AllReduce(r.ctx, full(r, 100, float32(1)), colligo.Sum) // on a device it may be enqueued without an error
						<-r.failed()
						require.ErrorContains(r.t, r.Err(), "this rank is of no use")
					}
					n, err := pg.Regroup(r.ctx, r.Group, leaver)
					require.NoError(r.t, err)
					s := r.in(n)
					defer s.leave()
					require.Equal(r.t, 2, s.Size())
					for range 3 {
						s.summed()
					}
					x := full(r, 100_000, float32(s.Rank()+1))
					require.NoError(r.t, s.AllReduceAsync(r.ctx, x, colligo.Sum).Wait(r.ctx))
					equal(r.t, repeat(100_000, float32(3)), values[float32](r, x))
				})
			})
		}
	}
}
