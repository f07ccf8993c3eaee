package peer

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/plan"
)

var seed = flag.Uint64("peer.seed", 1, "seed of simulated machines")

const simHalf = 1 << 20

// simPatience is after how long without a move a simulated machine finds a deadlock. It is longer than a busy machine holds a host up, and
// than operations wait that have a limit of waitedOut.
const simPatience = waitedOut + 4*time.Second

// simulated makes a machine with the kernels of some reductions; float32 sums it always has.
func simulated(t testing.TB, devices int, reductions ...reduction) *cudasim.Sim {
	t.Helper()
	sim := machine(t, devices, reductions...)
	t.Cleanup(func() { cudasim.Check(t, sim) })
	return sim
}

// seeded makes a machine with a seed of its own, and with the kernels of some reductions.
func seeded(t testing.TB, devices int, seed uint64, reductions ...reduction) *cudasim.Sim {
	t.Helper()
	sim := kerneled(t, cudasim.Config{Devices: devices, Seed: seed}, reductions...)
	t.Cleanup(func() { cudasim.Check(t, sim) })
	return sim
}

// abortable makes a machine for tests that stop kernels. Stopped kernels access memory in no order, so races are forgiven,
// but nothing else is.
func abortable(t testing.TB, devices int, reductions ...reduction) *cudasim.Sim {
	t.Helper()
	sim := machine(t, devices, reductions...)
	t.Cleanup(func() {
		sim.Drain()
		require.Empty(t, sim.Faults())
		require.Empty(t, sim.Leaks())
		sim.Close()
	})
	return sim
}

func machine(t testing.TB, devices int, reductions ...reduction) *cudasim.Sim {
	t.Helper()
	return kerneled(t, cudasim.Config{Devices: devices, Seed: *seed}, reductions...)
}

// kerneled makes a machine that has the kernels. It has simPatience where the test says nothing else.
func kerneled(t testing.TB, c cudasim.Config, reductions ...reduction) *cudasim.Sim {
	t.Helper()
	if c.Patience == 0 {
		c.Patience = simPatience
	}
	sim := cudasim.New(c)
	cudasim.Limit(t, sim)
	require.NoError(t, model.Register(sim))
	for _, r := range append([]reduction{{colligo.Float32, colligo.KindSum}}, reductions...) {
		require.NoError(t, model.RegisterReduction(sim, r.dtype, r.kind))
	}
	return sim
}

// small makes little symmetric heaps, so that tiles, slots and throttle events wrap around early, with one algorithm for everything.
func small(algorithm Algorithm) Options {
	o, tile := Options{Memory: 24 << 20}, 1<<10
	if algorithm == CopyRing || algorithm == Fused {
		tile = 4 * ringUnit
	}
	for c := plan.AllReduce; c <= plan.Scatter; c++ {
		if algorithm.Serves(c) {
			o.Rules = append(o.Rules, Rule{Coll: c, Algorithm: algorithm, Blocks: 3, Threads: 64, Tile: tile})
		}
	}
	return o
}

// taking returns small's options and a number of elements, and fails t unless an AllReduce of so many float32 takes the algorithm by them.
// It is at most the given number, for LL takes less than the others.
func taking(t testing.TB, algorithm Algorithm, ranks, most int) (o Options, n int) {
	t.Helper()
	o, n = small(algorithm), most
	if algorithm == LL || algorithm == LLTwoShot {
		n = min(n, 20_000)
	}
	c, err := o.Explain(plan.AllReduce, ranks, 4*n, true)
	require.NoError(t, err)
	require.Equal(t, algorithm, c.Algorithm)
	return o, n
}

// onSim runs f on all ranks of a simulated machine with a device for each. How its host launches depends on the seed alone.
func onSim(t *testing.T, size int, o Options, f func(*rank) error, reductions ...reduction) {
	t.Helper()
	if o.launch == 0 {
		o.launch = paces[*seed%uint64(len(paces))]
	}
	onRanks(t, simulated(t, size, reductions...).Driver(), size, size, simHalf, o, f)
}

func TestAllReduce(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(1, 2, 3, 4, 8) {
		for _, algorithm := range []Algorithm{LL, LLTwoShot, Tiles, CopyRing, Fused} {
			t.Run(fmt.Sprintf("ranks=%d/%s", size, algorithm), func(t *testing.T) {
				t.Parallel()
				onSim(t, size, small(algorithm), func(r *rank) error {
					for i, n := range []int{0, 1, 5, 1000, 4099, 3000, 40_000, 40_000, 1000, 1, 0} {
						c := trial{dtype: colligo.Float32, op: colligo.Sum, count: n, shift: n % 4, async: i%2 == 1}
						if err := r.allReduce(c); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

// TestTypes takes every element type and reduction once.
func TestTypes(t *testing.T) {
	t.Parallel()
	f, all := each(thinned(allTypes(301)))
	onSim(t, 3, Options{}, f, all...)
}

// each tries them all, one after the other, for which a machine has to have some reductions.
func each(trials []trial) (f func(*rank) error, all []reduction) {
	for _, c := range trials {
		all = append(all, reduction{c.dtype, c.op.Kind()})
	}
	return func(r *rank) error {
		for _, c := range trials {
			if err := r.allReduce(c); err != nil {
				return err
			}
		}
		return nil
	}, all
}

func TestMoves(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(1, 2, 3, 5) {
		for _, algorithm := range []Algorithm{LL, Tiles} {
			t.Run(fmt.Sprintf("ranks=%d/%s", size, algorithm), func(t *testing.T) {
				t.Parallel()
				onSim(t, size, small(algorithm), func(r *rank) error {
					for _, n := range []int{0, 1, 7, 1000, 33_000} {
						if err := first(r.moves(n),
							func() error { return r.lists(n) },
							func() error { return r.reduces(colligo.Float32, n) }); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

// fewer are the sizes of groups to test. Go's race detector sees in a small group all that it sees in a large one.
func fewer(sizes ...int) []int {
	if underRace {
		return sizes[1:min(3, len(sizes))]
	}
	return sizes
}

// seeds is how many of n are played: Go's race detector sees in one what it would see in all.
func seeds(n uint64) uint64 {
	if underRace {
		return 1
	}
	return n
}

// thinned leaves most element types to runs without Go's race detector, which sees no types.
func thinned(all []trial) (some []trial) {
	for i, c := range all {
		if !underRace || i%6 == 0 {
			some = append(some, c)
		}
	}
	return some
}
