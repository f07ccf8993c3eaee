package peer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// TestOtherRules has tables that print alike, for their bounds do.
func TestOtherRules(t *testing.T) {
	t.Parallel()
	sim := simulated(t, 2)
	errs := make(chan error, 2)
	onRanks(t, sim.Driver(), 2, 2, simHalf, Options{}, func(r *rank) error {
		o := small(Tiles)
		o.Driver = sim.Driver()
		o.Rules = append([]Rule{{Coll: plan.AllReduce, MaxBytes: 100_000 + 8*r.g.Rank(), Algorithm: LL, Blocks: 3, Threads: 64}}, o.Rules...)
		errs <- r.g.AllReduce(With(r.ctx, o), r.tensor(0, colligo.Float32, 0, 25_001), colligo.Sum)
		return nil
	})
	for range 2 {
		require.ErrorContains(t, <-errs, "other options")
	}
}
