package peer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// TestMissingRank leaves one rank out of a collective: the others' devices stop waiting, and the error names it.
func TestMissingRank(t *testing.T) {
	for _, way := range []Way{Packets, Tiles, Ring} {
		t.Run(string(way), func(t *testing.T) {
			o := small(way)
			o.Timeout = 200 * time.Millisecond
			onRanks(t, stoppable(t, 3).Driver(), 3, 3, simHalf, o, func(r *rank) error {
				x := r.tensor(0, colligo.Float32, 0, 50_000)
				if err := first(r.put(x, make([]byte, x.Size())), r.g.AllReduce(r.ctx, x, colligo.Sum)); err != nil {
					return err
				}
				if r.g.Rank() == 1 {
					for r.g.Err() == nil { // a peer's note of the failure comes
						time.Sleep(time.Millisecond)
					}
					return nil
				}
				w := r.g.AllReduceAsync(r.ctx, x, colligo.Sum)
				err := w.Synchronize(context.Background())
				if !errors.Is(err, colligo.ErrTimeout) {
					return errors.Join(errors.New("no timeout"), err)
				}
				if way != Ring && !strings.Contains(err.Error(), "it waits for rank 1") {
					return errors.Join(errors.New("the error does not name rank 1"), err)
				}
				return nil
			})
		})
	}
}

// TestOtherOptions opens the ranks of a group with different options.
func TestOtherOptions(t *testing.T) {
	sim := simulated(t, 2)
	errs := make(chan error, 2)
	onRanks(t, sim.Driver(), 2, 2, simHalf, Options{}, func(r *rank) error {
		o := Options{Driver: sim.Driver(), Memory: (32 + 16*r.g.Rank()) << 20}
		x := r.tensor(0, colligo.Float32, 0, 10)
		errs <- r.g.AllReduce(With(r.ctx, o), x, colligo.Sum)
		return nil
	})
	for range 2 {
		require.ErrorContains(t, <-errs, "other options")
	}
}
