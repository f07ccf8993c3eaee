package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// TestCloseNamesPendingCollectives closes a group under collectives that its peer never calls. A message would have NCCL wait for the
// peer before that.
func TestCloseNamesPendingCollectives(t *testing.T) {
	beside(t)
	eachWith(t, 2, options{waits: true}, func(r *rank) {
		r.summed()
		number := len(recent(r.Dump(everything)))
		if r.Rank() == 0 {
			require.NoError(r.t, r.Store().Wait(r.ctx, "closed"))
			require.NoError(r.t, r.Close())
			return
		}
		x := full(r, 100, float32(1))
		works := []*pg.Work{r.AllReduceAsync(r.ctx, x, colligo.Sum), r.BroadcastAsync(r.ctx, x, 0)}
		want := []string{named("all_reduce", number+1), named("broadcast", number+2)}
		if r.gpu != nil {
			require.NoError(r.t, r.Reduce(r.ctx, x, 0, colligo.Sum))
			want = append(want, named("reduce", number+3))
		}
		r.closesNaming(works, want)
	})
}
