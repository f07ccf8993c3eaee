package pg_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport/sim"
)

// rough is n numbers of a rank whose magnitudes are so mixed that their sum over ranks depends on the order.
func rough(rank, n int) []float32 {
	rng := rand.New(rand.NewPCG(uint64(rank), uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Ldexp(rng.Float64()-0.5, rng.IntN(40)))
	}
	return x
}

// everyResult runs every collective once on rough numbers and returns the bits of all results of this rank.
func everyResult(t *testing.T, g *pg.Group, n int) []uint32 {
	ctx, me, size := t.Context(), g.Rank(), g.Size()
	var bits []uint32
	keep := func(err error, xs ...[]float32) {
		require.NoError(t, err)
		for _, x := range xs {
			for _, f := range x {
				bits = append(bits, math.Float32bits(f))
			}
		}
	}
	x := rough(me, n)
	keep(g.AllReduce(ctx, colligo.Of(x), colligo.Sum), x)
	x = rough(me, n)
	keep(g.AllReduce(ctx, colligo.Of(x), colligo.Avg), x)
	x = rough(me, n)
	keep(g.Reduce(ctx, colligo.Of(x), n%size, colligo.Sum), x)
	x = make([]float32, n)
	keep(g.ReduceScatterTensor(ctx, colligo.Of(x), colligo.Of(rough(me, n*size)), colligo.Sum), x)
	x = rough(me, n)
	keep(g.Broadcast(ctx, colligo.Of(x), (n+1)%size), x)
	x = make([]float32, n*size)
	keep(g.AllGatherIntoTensor(ctx, colligo.Of(x), colligo.Of(rough(me, n))), x)
	keep(g.AllToAllSingle(ctx, colligo.Of(x), colligo.Of(rough(me, n*size)), nil, nil), x)
	var outs, ins []colligo.Tensor
	all := parts(size, n)
	if me == 1%size {
		outs, ins = tensors(all), tensors(parts(size, n))
		for r := range ins {
			copy(ins[r].CPUBytes(), colligo.Of(rough(r+50, n)).CPUBytes())
		}
	}
	keep(g.Gather(ctx, outs, colligo.Of(rough(me, n)), 1%size), all...)
	x = make([]float32, n)
	keep(g.Scatter(ctx, colligo.Of(x), ins, 1%size), x)
	keep(g.Barrier(ctx))
	to, from := (me+1)%size, (me+size-1)%size
	w := g.SendAsync(ctx, colligo.Of(rough(me, n)), to, 5)
	keep(g.Recv(ctx, colligo.Of(x), from, 5), x)
	keep(w.Wait(ctx))
	return bits
}

// results runs everyResult on every rank.
func results(t *testing.T, size, n int, o pgtest.Options) [][]uint32 {
	t.Helper()
	all := make([][]uint32, size)
	pgtest.RunWith(t, size, o, func(t *testing.T, g *pg.Group) { all[g.Rank()] = everyResult(t, g, n) })
	return all
}

// sameBits compares the results of two runs and names the first bits that differ.
func sameBits(t *testing.T, want, got [][]uint32, format string, args ...any) {
	t.Helper()
	for r := range want {
		require.Len(t, got[r], len(want[r]))
		for i := range want[r] {
			if got[r][i] != want[r][i] {
				t.Fatalf("%s: rank %d: result %d is %#x, on a quiet network %#x", fmt.Sprintf(format, args...), r, i, got[r][i], want[r][i])
			}
		}
	}
}

// TestRoughNumbersShowOrder makes sure that the tests below can fail: other planners give other bits.
func TestRoughNumbersShowOrder(t *testing.T) {
	first := results(t, 5, 1000, pgtest.Options{Config: algorithms(0)})
	for i := 1; i < passes; i++ {
		other := results(t, 5, 1000, pgtest.Options{Config: algorithms(i)})
		require.NotEqual(t, first[0][:1000], other[0][:1000])
		for r := range other {
			require.Equal(t, other[0][:1000], other[r][:1000], "all_reduce gives one result on all ranks")
		}
	}
}

// weather is what a network does in the simulations: each gets a seed.
var weather = map[string]func(seed uint64, size int) sim.Config{
	"reorder": func(uint64, int) sim.Config {
		return sim.Config{MinDelay: time.Microsecond, MaxDelay: 3 * time.Millisecond, Reorder: true}
	},
	"slow peer": func(seed uint64, size int) sim.Config {
		return sim.Config{MinDelay: time.Microsecond, MaxDelay: 100 * time.Microsecond, Reorder: true,
			Faults: []sim.Fault{{Do: fmt.Sprintf("slow %d 1000", seed%uint64(size))}}}
	},
	"partition": func(seed uint64, size int) sim.Config {
		rng := rand.New(rand.NewPCG(seed, 0))
		c := sim.Config{MinDelay: 100 * time.Microsecond, MaxDelay: time.Millisecond, Reorder: true}
		at := time.Duration(0)
		for range 6 {
			at += time.Duration(rng.IntN(5000)) * time.Microsecond
			c.Faults = append(c.Faults, sim.Fault{At: at, Do: fmt.Sprintf("partition %d,%d", rng.IntN(size), rng.IntN(size))})
			at += time.Duration(rng.IntN(2000)) * time.Millisecond
			c.Faults = append(c.Faults, sim.Fault{At: at, Do: "heal"})
		}
		return c
	},
	"pauses": func(seed uint64, size int) sim.Config {
		c := sim.Config{MaxDelay: time.Millisecond}
		for i := range 4 {
			at, rank := time.Duration(i)*5*time.Millisecond, (seed+uint64(i))%uint64(size)
			c.Faults = append(c.Faults, sim.Fault{At: at, Do: fmt.Sprintf("pause %d", rank)},
				sim.Fault{At: at + time.Second, Do: fmt.Sprintf("resume %d", rank)})
		}
		return c
	},
}

// TestSimulations runs every collective with every planner on networks that delay, reorder, stall and heal. It compares
// every bit with a run on a quiet one.
func TestSimulations(t *testing.T) {
	t.Parallel()
	const size = 5
	seeds := uint64(scaled(8))
	for i := range passes {
		for _, n := range []int{3, 1000} {
			quiet := results(t, size, n, pgtest.Options{Config: algorithms(i)})
			for name, storm := range weather {
				for seed := range seeds {
					o := pgtest.Options{Seed: seed + 1, Sim: storm(seed+1, size), Config: algorithms(i)}
					sameBits(t, quiet, results(t, size, n, o), "algorithms %d, count %d, %s, seed %d", i, n, name, seed+1)
				}
			}
		}
	}
}

// TestLargeInStorm does the same with messages of many frames, beyond the credit of a lane.
func TestLargeInStorm(t *testing.T) {
	t.Parallel()
	const size = 3
	n := scaled(80_000)
	for i := range passes {
		quiet := results(t, size, n, pgtest.Options{Config: algorithms(i)})
		o := pgtest.Options{Seed: uint64(i) + 1, Sim: weather["reorder"](0, size), Config: algorithms(i)}
		sameBits(t, quiet, results(t, size, n, o), "algorithms %d", i)
	}
}

// TestMediaAgree compares the bits of every collective over sim, shared memory and sockets.
func TestMediaAgree(t *testing.T) {
	for i := range passes {
		for _, n := range []int{5, scaled(20_000)} {
			want := results(t, 4, n, pgtest.Options{Config: algorithms(i)})
			for _, transport := range []string{"shm", "tcp"} {
				t.Run(fmt.Sprintf("transport=%s/algo=%d/count=%d", transport, i, n), func(t *testing.T) {
					needs(t, transport)
					sameBits(t, want, results(t, 4, n, pgtest.Options{Transport: transport, Config: algorithms(i)}), "over %s", transport)
				})
			}
		}
	}
}
