package parity

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// partingCalls are collectives of all ranks, by name.
func partingCalls() map[string]func(r *rank) error {
	all := map[string]func(r *rank) error{
		"all_reduce": func(r *rank) error { return r.AllReduce(r.ctx, full(r, 100, float32(1)), colligo.Sum) },
		"barrier": func(r *rank) error {
			if r.gpu != nil {
				return r.BarrierOn(r.ctx, r.gpu.Place())
			}
			return r.Barrier(r.ctx)
		},
		"all_to_all": func(r *rank) error {
			return r.AllToAllSingle(r.ctx, full(r, 8, float32(0)), full(r, 8, float32(1)), nil, nil)
		},
	}
	for name, call := range rootedCalls {
		all[name] = func(r *rank) error { return call(r, 100, 0) }
	}
	return all
}

// TestCloseBarrierFindsSkipped has one rank leave out the last collective. With the barrier at Close every rank hears of it in the
// collective or from Close.
func TestCloseBarrierFindsSkipped(t *testing.T) {
	beside(t)
	o := options{waits: true, config: func(_ int, c *pg.Config) { c.CloseBarrier, c.Timeout = pg.On, time.Minute }}
	for name, call := range partingCalls() {
		t.Run("coll="+name, func(t *testing.T) {
			eachWith(t, 4, o, func(r *rank) {
				r.summed()
				r.meet("summed")
				called := call(r)
				if r.Rank() != 3 {
					called = errors.Join(called, call(r))
				} else { // a call may be more than one collective
					require.NoError(r.t, r.Store().Set(r.t.Context(), "last", fmt.Append(nil, pg.SequenceOf(r.Group))))
				}
				last, err := r.Store().Get(r.t.Context(), "last")
				require.NoError(r.t, err)
				began := time.Now()
				err = errors.Join(called, r.Close())
				require.ErrorIs(r.t, err, colligo.ErrMismatch)
				require.ErrorContains(r.t, err, fmt.Sprintf("rank 3 closes the group after collective #%s", last))
				require.Less(r.t, time.Since(began), time.Minute/2)
			})
		})
	}
}

// TestCloseBarrierOfEqualCalls closes groups whose ranks have called the same. The barrier finds nothing.
func TestCloseBarrierOfEqualCalls(t *testing.T) {
	eachWith(t, 4, options{config: func(_ int, c *pg.Config) { c.CloseBarrier = pg.On }}, func(r *rank) {
		calls := partingCalls()
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			require.NoError(r.t, calls[name](r))
		}
		require.NoError(r.t, r.Close())
	})
}
