package peer

import (
	"fmt"
	"testing"

	"github.com/colligo-go/colligo/plan"
)

// TestGPURegistered takes LL128 and the algorithms of registered memory for sizes around every bound.
func TestGPURegistered(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		for _, algorithm := range []Algorithm{LL128, LL128TwoShot, Direct, CopyDirect} {
			if size < 2 || size > n {
				continue // LL128 needs a device for each rank
			}
			t.Run(fmt.Sprintf("ranks=%d/%s", size, algorithm), func(t *testing.T) {
				o := Options{Rules: []Rule{{Coll: plan.AllReduce, Registered: true, Algorithm: algorithm, Blocks: 128, Threads: 256}}}
				onRanks(t, d, size, n, gpuHalf, o, func(r *rank) error {
					x, err := r.register()
					if err != nil {
						return err
					}
					for _, c := range allSizes(1 << 22) {
						if err := r.allReduce(c); err != nil {
							return err
						}
					}
					return first(r.replayed(1<<20), x.Close)
				})
			})
		}
	}
}

// TestGPUOtherPlace has ranks mean different places of registered memory.
func TestGPUOtherPlace(t *testing.T) {
	d, n := gpus(t)
	for _, c := range []plan.Coll{plan.AllReduce, plan.Broadcast} {
		t.Run(c.String(), func(t *testing.T) {
			onRanks(t, d, 2, n, simHalf, directly(), func(r *rank) error { return r.otherPlace(c) })
		})
	}
}
