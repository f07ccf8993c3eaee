package peer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// anyAlgorithms adds all kernels that allAlgorithms leaves out, on grids and tiles that differ from rule to rule.
func anyAlgorithms(seed uint64, size int) Options {
	o := allAlgorithms()
	random := rand.New(rand.NewPCG(seed, 7))
	for c := plan.ReduceScatter; c <= plan.Scatter; c++ {
		if c == plan.AllGather || c == plan.AllToAll || c == plan.Broadcast || !Tiles.Serves(c) {
			continue
		}
		o.Rules = append(o.Rules, Rule{Coll: c, Algorithm: LL, MaxBytes: 2 << 10}, Rule{Coll: c, Algorithm: Tiles})
	}
	for _, c := range []plan.Coll{plan.AllGather, plan.AllToAll} {
		o.Rules = append([]Rule{{Coll: c, Algorithm: Tiles, MaxBytes: 1 << 10}}, o.Rules...)
	}
	for i := range o.Rules {
		c := &o.Rules[i]
		c.Blocks, c.Threads = 1+random.IntN(5), 64*(1+random.IntN(2))
		if c.Algorithm != CopyRing && c.Algorithm != CopyDirect && c.Algorithm != Fused {
			c.Tile = []int{0, 1 << 10, 2 << 10, 4 << 10}[random.IntN(4)]
		}
	}
	o.Memory = leastMemory(size) + random.IntN(4)<<20
	if random.IntN(2) == 0 { // several rounds of LL128
		o.Rules = append([]Rule{{Coll: plan.AllReduce, Algorithm: LL128, Blocks: 1 + random.IntN(4), Threads: 128},
			{Coll: plan.Broadcast, Algorithm: LL128, Blocks: 1 + random.IntN(4), Threads: 128}}, o.Rules...)
	}
	return o
}

// TestAnyOrderUnwatched enqueues operations by all algorithms in an order that a seed picks, with no host between them. So
// only kernels and streams order them. Some are in a graph that is replayed. The results do not matter.
func TestAnyOrderUnwatched(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4) {
		for i := range seeds(2) {
			t.Run(fmt.Sprintf("ranks=%d/seed=%d", size, *seed+i), func(t *testing.T) {
				t.Parallel()
				of := *seed + i
				onRanks(t, seeded(t, size, of).Driver(), size, size, simHalf, anyAlgorithms(of, size), func(r *rank) error {
					if i%2 == 0 {
						if err := r.registerAll(); err != nil {
							return err
						}
					}
					return r.unseen(rand.New(rand.NewPCG(of, 2)))
				})
			})
		}
	}
}

// unseen calls everything once, so that all code is there, and then in any order, half of it in a graph.
func (r *rank) unseen(random *rand.Rand) error {
	x := r.tensor(0, colligo.Float32, 0, 120_000)
	if err := first(r.put(x, make([]byte, x.Size())),
		func() error { return r.put(r.tensor(1, colligo.Float32, 0, 120_000), make([]byte, x.Size())) }); err != nil {
		return err
	}
	for _, n := range []int{500, 3000, 6000, 20_000, 90_000} {
		for what := range 8 {
			if err := r.anyCall(what, 0, n); err != nil {
				return err
			}
		}
	}
	some := func(n int) error {
		for range n {
			n := []int{40, 300, 700, 3000, 6000, 20_000, 60_000}[random.IntN(7)] + random.IntN(5)
			if err := r.anyCall(random.IntN(8), random.IntN(r.g.Size()), n); err != nil {
				return err
			}
		}
		return nil
	}
	if err := r.synchronize(); err != nil {
		return err
	}
	graph, err := r.captured(func() error { return some(8) })
	if err != nil {
		return err
	}
	for range 3 {
		if err := first(some(10),
			func() error { return r.launch(graph) },
			func() error { return r.launch(graph) },
			func() error { return some(3) },
			func() error { return r.launch(graph) }); err != nil {
			return err
		}
	}
	return first(r.synchronize(), func() error { return r.giveBack(graph) })
}

// anyCall calls a collective on about n elements.
func (r *rank) anyCall(what, root, n int) error {
	d, size := colligo.Float32, r.g.Size()
	part := n / size
	in, out := r.tensor(0, d, 0, n), r.tensor(1, d, 0, part*size)
	one := in.Slice(0, part)
	var list []colligo.Tensor
	for q := range size {
		if r.g.Rank() == root {
			list = append(list, out.Slice(q*part, q*part+part))
		}
	}
	switch what {
	case 0:
		return r.g.AllGatherIntoTensor(r.ctx, out, one)
	case 1:
		return r.g.AllToAllSingle(r.ctx, out, in.Slice(0, part*size), nil, nil)
	case 2:
		return r.g.Broadcast(r.ctx, in, root)
	case 3:
		return r.g.ReduceScatterTensor(r.ctx, out.Slice(0, part), in.Slice(0, part*size), colligo.Sum)
	case 4:
		return r.g.Reduce(r.ctx, in, root, colligo.Sum)
	case 5:
		return r.g.Gather(r.ctx, list, one, root)
	case 6:
		return r.g.Scatter(r.ctx, one, list, root)
	}
	return r.g.AllReduce(r.ctx, in, colligo.Sum)
}
