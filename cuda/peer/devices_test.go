package peer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// TestUnlikeDevices has ranks with devices of different sizes, as a process sees of its own device's when it may use only some
// of it. In rounds of LL128 the same warps of all ranks have the same places.
func TestUnlikeDevices(t *testing.T) {
	t.Parallel()
	sim := simulated(t, 2)
	var drivers []*cuda.Driver
	for rank := range 2 {
		d := *sim.Process().Driver()
		ask := d.DeviceGetAttribute
		d.DeviceGetAttribute = func(a cuda.Attribute, id cuda.DeviceID) (int, cuda.Result) {
			if a == cuda.MultiprocessorCount {
				return 5 - 2*rank, cuda.Success
			}
			return ask(a, id)
		}
		drivers = append(drivers, &d)
	}
	o := Options{Memory: 4 << 20, Rules: []Rule{{Coll: plan.AllReduce, Algorithm: LL128, Blocks: 8, Threads: 512},
		{Coll: plan.Broadcast, Algorithm: LL128, Blocks: 8, Threads: 512}}}
	l, err := symheap.NewLayout(2, o.Memory)
	require.NoError(t, err)
	round := l.LL128Slot / ptx.LL128Chunk * ptx.LL128Data / 4
	onDrivers(t, func(rank int) *cuda.Driver { return drivers[rank] }, 2, 2, simHalf, o, func(r *rank) error {
		for _, n := range []int{5 * round / 2, 300, 2*round + 1} {
			if err := first(r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}),
				func() error { return r.broadcasts(n) }); err != nil {
				return err
			}
		}
		return nil
	})
}
