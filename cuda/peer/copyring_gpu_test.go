package peer

import (
	"fmt"
	"testing"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// TestGPUCopyRings takes rings, with slices as large as slots and with small ones, between kernels that use the same memory.
func TestGPUCopyRings(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		for _, tile := range []int{0, 64 << 10} {
			t.Run(fmt.Sprintf("ranks=%d/slice=%d", size, tile), func(t *testing.T) {
				o := Options{}
				for _, c := range []plan.Coll{plan.AllReduce, plan.AllGather, plan.AllToAll} {
					o.Rules = append(o.Rules, Rule{Coll: c, MaxBytes: 256 << 10, Algorithm: Tiles, Blocks: 64, Threads: 256},
						Rule{Coll: c, Algorithm: CopyRing, Blocks: 128, Threads: 512, Tile: tile})
				}
				onRanks(t, d, size, n, gpuHalf, o, func(r *rank) error {
					for _, n := range []int{1 << 14, 1<<20 + 1, 1<<17 + 3, 1 << 16, 1 << 20} {
						sum := trial{dtype: colligo.Float32, op: colligo.Sum, count: 3 * n, async: n%2 == 1}
						if err := first(r.allReduce(sum),
							func() error { return r.moves(n) },
							func() error { return r.lists(n) },
							func() error { return r.gathersInPlace(n) },
							func() error { return r.gathersOne(n) }); err != nil {
							return err
						}
					}
					return r.replayed(1 << 20)
				})
			})
		}
	}
}
