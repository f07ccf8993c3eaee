package parity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// TestBroadcastRootsDiffer has ranks mean different roots of one broadcast. All hear of it, and that it is this broadcast, before
// they call anything else. Some of them wait for nobody, since they are roots by their own word.
func TestBroadcastRootsDiffer(t *testing.T) {
	for _, roots := range [][]int{{0, 1}, {1, 0}, {0, 1, 2}, {0, 1, 1}, {0, 0, 0, 1}, {0, 0, 2, 2}, {0, 1, 2, 3, 4}} {
		for _, n := range []int{1, 100_000} {
			t.Run(fmt.Sprintf("roots=%v/elements=%d", roots, n), func(t *testing.T) {
				each(t, len(roots), func(r *rank) {
					x := full(r, n, float32(1))
					if r.gpu != nil {
						r.summed() // all ranks open the backend
					}
					number := 1 + len(recent(r.Dump(everything)))
					if err := r.Broadcast(r.ctx, x, roots[r.Rank()]); err != nil {
						require.ErrorIs(r.t, err, colligo.ErrMismatch)
					}
					<-r.failed()
					require.ErrorIs(r.t, r.Err(), colligo.ErrMismatch)
					require.ErrorContains(r.t, r.Err(), fmt.Sprintf("called broadcast #%d (", number))
				})
			})
		}
	}
}
