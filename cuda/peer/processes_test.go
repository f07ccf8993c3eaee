package peer

import (
	"fmt"
	"testing"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// TestProcesses runs ranks in processes of their own, one or two on a device.
func TestProcesses(t *testing.T) {
	t.Parallel()
	cases := []struct{ size, devices int }{{2, 2}, {4, 4}, {4, 2}, {2, 1}}
	if underRace {
		cases = cases[2:]
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("ranks=%d/devices=%d", c.size, c.devices), func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, c.devices)
			var drivers []*cuda.Driver
			for range c.size {
				drivers = append(drivers, sim.Process().Driver())
			}
			onDrivers(t, func(rank int) *cuda.Driver { return drivers[rank] }, c.size, c.devices, simHalf, small(CopyRing), func(r *rank) error {
				for _, n := range []int{7, 5000, 60_000} {
					if err := first(r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}), r.moves(n), r.eager(n)); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// TestStreams changes the stream from call to call, without a wait of its own.
func TestStreams(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{LL, Tiles, CopyRing, Fused} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			onSim(t, 3, small(algorithm), func(r *rank) error { return r.wander(50_000) })
		})
	}
}

// wander sums eight times on two streams in turn, every third time asynchronously, and compares at the end. Each sum is of
// a tensor of its own, so that only the group's memory orders the calls.
func (r *rank) wander(n int) error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	other, err := t.NewStream(0)
	if err != nil {
		return err
	}
	want, err := reduced(colligo.Float32, colligo.Sum, r.g.Size(), n)
	if err != nil {
		return err
	}
	var at [8]colligo.Tensor
	for i := range at {
		at[i] = r.tensor(i%2, colligo.Float32, i/2*(n+200), n)
		if err := r.put(at[i], values(colligo.Float32, colligo.KindSum, r.g.Rank(), n)); err != nil {
			return err
		}
	}
	for i, x := range at {
		ctx := r.ctx
		if i%2 == 1 {
			ctx = OnStream(ctx, other)
		}
		if i%3 == 2 {
			err = r.g.AllReduceAsync(ctx, x, colligo.Sum).Wait(r.ctx)
		} else {
			err = r.g.AllReduce(ctx, x, colligo.Sum)
		}
		if err != nil {
			return err
		}
	}
	if err := t.Synchronize(other); err != nil {
		return err
	}
	for i := range at {
		if err := r.expect(fmt.Sprintf("sum %d", i), at[i], want); err != nil {
			return err
		}
	}
	// The group's next operation takes over from the stream that goes.
	return first(r.g.AllReduce(r.ctx, at[0], colligo.Sum), t.DestroyStream(other))
}
