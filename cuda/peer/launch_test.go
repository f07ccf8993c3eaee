package peer

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/plan"
)

// paces are the times that three hosts take to launch a kernel. The first is best off without graphs, the second with graphs
// of small grids, the third with graphs of larger ones.
var paces = [3]time.Duration{time.Microsecond, 2600 * time.Nanosecond, 5 * time.Microsecond}

// TestPace has each kind of host launch a small grid and a larger one, eagerly and into a graph.
func TestPace(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		most         int
		small, large bool // go by graphs
	}{{0, false, false}, {1024, true, false}, {16384, true, true}} {
		t.Run(fmt.Sprintf("threads=%d", c.most), func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.most, repeatMost(paces[i]))
			var graphs atomic.Int64
			sim := simulated(t, 1, reduction{colligo.Float32, colligo.KindMax})
			d := *sim.Driver()
			launch, outside := d.GraphLaunch, d.GraphLaunchOutside
			d.GraphLaunch = func(g cuda.GraphExec, s cuda.Stream) cuda.Result {
				graphs.Add(1)
				return launch(g, s)
			}
			d.GraphLaunchOutside = func(g cuda.GraphExec, s cuda.Stream) (bool, cuda.Result) {
				graphs.Add(1)
				return outside(g, s)
			}
			o := Options{Memory: 24 << 20, launch: paces[i],
				Rules: []Rule{{Coll: plan.AllReduce, Algorithm: LL, Blocks: 64, Threads: 256}}}
			onRanks(t, &d, 2, 1, simHalf, o, func(r *rank) error {
				if err := first(r.byGraph(&graphs, 100, c.small), func() error { return r.byGraph(&graphs, 16<<10, c.large) }); err != nil {
					return err
				}
				return r.replayed(16 << 10)
			})
		})
	}
}

// byGraph reduces n elements again and again, and wants graphs launched or not.
func (r *rank) byGraph(graphs *atomic.Int64, n int, want bool) error {
	before := graphs.Load()
	if err := r.g.Barrier(r.ctx); err != nil {
		return err
	}
	for range 3 {
		if err := r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}); err != nil {
			return err
		}
	}
	if launched := graphs.Load() - before; (launched >= 3) != want {
		return fmt.Errorf("%d graphs launched for 3 operations on %d elements", launched, n)
	}
	return r.g.Barrier(r.ctx)
}

// TestPaceFollows has a host become fast, and slow again, which what a sample begins with does not tell, nor one slow launch.
func TestPaceFollows(t *testing.T) {
	t.Parallel()
	r := &repeats{most: 1024, adapts: true}
	sample := func(took ...time.Duration) {
		for n := 0; n < len(took); r.count++ {
			if i := r.sampled(); i >= 0 {
				require.Equal(t, n, i)
				r.sample(i, took[n]*time.Microsecond)
				n++
			}
		}
	}
	sample(9, 9, 9, 2, 2, 5, 2, 2, 2)
	require.Equal(t, 1024, r.most)
	r.sample(sampleLength-1, 2*time.Microsecond)
	require.Equal(t, 0, r.most)
	r.count++
	sample(2, 2, 2, 5, 5, 2, 5, 5, 5, 5)
	require.Equal(t, repeatEver, r.most)
	require.Equal(t, 2*sampleEvery-sampleEvery/2+sampleLength, r.count)
	r.adapts = false
	for range 2 * sampleEvery {
		r.count++
		require.Negative(t, r.sampled())
	}
}
