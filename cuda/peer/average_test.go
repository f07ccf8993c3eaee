package peer

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// greatest are the bits of the greatest number of each type, of which two are too much for a sum.
var greatest = []struct {
	d    colligo.DType
	bits []byte
}{{colligo.Float32, []byte{0xff, 0xff, 0x7f, 0x7f}}, {colligo.BFloat16, []byte{0x7f, 0x7f}}, {colligo.Float16, []byte{0xff, 0x7b}}}

var averaging = []Algorithm{LL, LLTwoShot, LL128, LL128TwoShot, Sentinel, Tiles, CopyRing, Fused}

// averagesFit averages the greatest numbers: the result is no infinity, but what each rank has.
func (r *rank) averagesFit(n int) error {
	for _, g := range greatest {
		d, own := g.d, bytes.Repeat(g.bits, n)
		x := r.tensor(0, d, 1, n)
		call := func() error { return r.g.AllReduce(r.ctx, x, colligo.Avg) }
		if err := r.try(fmt.Sprintf("average of %v", d), x, own, x, own, call); err != nil {
			return err
		}
		size := r.g.Size()
		part, all := r.tensor(1, d, 1, n), r.tensor(0, d, 0, n*size)
		scatter := func() error { return r.g.ReduceScatterTensor(r.ctx, part, all, colligo.Avg) }
		if err := r.try(fmt.Sprintf("scattered average of %v", d), all, bytes.Repeat(own, size), part, own, scatter); err != nil {
			return err
		}
	}
	return nil
}

// byAlgorithm takes one algorithm for all that it reduces.
func byAlgorithm(a Algorithm, o Options, blocks, threads, tile int) Options {
	o.Rules = []Rule{{Coll: plan.AllReduce, Algorithm: a, Blocks: blocks, Threads: threads, Tile: tile}}
	if a == LL || a == Tiles || a == Fused {
		o.Rules = append(o.Rules, Rule{Coll: plan.ReduceScatter, Algorithm: a, Blocks: blocks, Threads: threads, Tile: tile})
	}
	return o
}

func TestAverageFits(t *testing.T) {
	t.Parallel()
	var sums []reduction
	for _, g := range greatest {
		sums = append(sums, reduction{g.d, colligo.KindAvg})
	}
	for _, size := range fewer(2, 4) {
		for _, a := range averaging {
			t.Run(fmt.Sprintf("ranks=%d/%s", size, a), func(t *testing.T) {
				t.Parallel()
				onSim(t, size, byAlgorithm(a, Options{Memory: max(24<<20, leastMemory(size))}, 3, 64, 4<<10), func(r *rank) error {
					return first(r.averagesFit(5),
						func() error { return r.averagesFit(2001) },
						func() error { return r.averagesFit(20_000) })
				}, sums...)
			})
		}
	}
}

func TestGPUAverageFits(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		for _, a := range averaging {
			t.Run(fmt.Sprintf("ranks=%d/%s", size, a), func(t *testing.T) {
				onRanks(t, d, size, n, gpuHalf, byAlgorithm(a, Options{}, 16, 512, 0), func(r *rank) error {
					return first(r.averagesFit(5),
						func() error { return r.averagesFit(2001) },
						func() error { return r.averagesFit(1<<20 + 3) })
				})
			})
		}
	}
}
