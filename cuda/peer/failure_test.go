package peer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// TestMissingRank leaves one rank out of a collective: the others' devices stop waiting, and the error names it.
func TestMissingRank(t *testing.T) {
	t.Parallel()
	for _, way := range []Way{Packets, Tiles, Ring} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			o := small(way)
			o.Timeout = 3 * time.Second // the first sum must end in time, the race detector on and the machine busy
			onRanks(t, stoppable(t, 3).Driver(), 3, 3, simHalf, o, (*rank).missing)
		})
	}
}

// missing is a rank of a group in which rank 1 leaves the second sum out.
func (r *rank) missing() error {
	x := r.tensor(0, colligo.Float32, 0, 50_000)
	if err := first(r.put(x, make([]byte, x.Size())), r.g.AllReduce(r.ctx, x, colligo.Sum)); err != nil {
		return err
	}
	if r.g.Rank() == 1 {
		return r.failed("it waits for rank")
	}
	err := r.g.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(context.Background())
	if !errors.Is(err, colligo.ErrTimeout) {
		return errors.Join(errors.New("no timeout"), err)
	}
	return contains(err, "it waits for rank 1")
}

// failed waits for the group's failure, of which this rank hears sooner or later, and looks for words in it.
func (r *rank) failed(words ...string) error {
	for end := time.Now().Add(time.Minute); r.g.Err() == nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return contains(r.g.Err(), words...)
}

func contains(err error, words ...string) error {
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			return fmt.Errorf("the error should have %q in it: %w", w, err)
		}
	}
	return nil
}

// TestOtherOptions opens the ranks of a group with different options.
func TestOtherOptions(t *testing.T) {
	t.Parallel()
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

// TestClosedWhileFull closes a group while a goroutine enqueues more than the device takes, for a peer takes no part.
func TestClosedWhileFull(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"packets": small(Packets), "ring": small(Ring), "staged": {Memory: 24 << 10, Staged: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed := make(chan struct{})
			onStaged(t, 2, crew{devices: 2, driver: one(stoppable(t, 2).Driver()), options: same(o)}, func(r *rank) error {
				x, err := r.begun()
				if err != nil || r.g.Rank() == 1 {
					<-closed
					return err
				}
				defer close(closed)
				return r.closedWhileFull(x)
			})
		})
	}
}

// closedWhileFull closes the group of a goroutine that enqueues and has come no further for a while.
func (r *rank) closedWhileFull(x colligo.Tensor) error {
	enqueued, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for r.g.Err() == nil {
			r.g.AllReduceAsync(r.ctx, x, colligo.Sum)
			enqueued <- struct{}{}
		}
	}()
	for full := false; !full; {
		select {
		case <-enqueued:
		case <-time.After(300 * time.Millisecond):
			full = true
		}
	}
	over := make(chan error)
	go func() { over <- r.g.Close() }()
	limit := time.After(30 * time.Second)
	var err error
	for ended != nil || over != nil {
		select {
		case <-enqueued:
		case <-ended:
			ended = nil
		case err = <-over:
			over = nil
		case <-limit:
			return errors.New("Close waits for who enqueues, and that for a peer")
		}
	}
	return err
}
