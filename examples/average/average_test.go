package average

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport/sim"
)

// TestMean has each rank add as many numbers as its rank says.
func TestMean(t *testing.T) {
	pgtest.Run(t, 4, func(t *testing.T, g *pg.Group) {
		var m Mean
		for range g.Rank() {
			m.Add(float64(g.Rank()))
		}
		mean, err := m.Over(t.Context(), g)
		require.NoError(t, err)
		require.InDelta(t, 14.0/6, mean, 1e-12)
	})
}

// TestNothing has no rank add any.
func TestNothing(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		_, err := new(Mean).Over(t.Context(), g)
		require.EqualError(t, err, "average: 2 ranks have no numbers")
	})
}

// TestSlowNetwork delays every message by up to a second. On virtual time that takes none.
func TestSlowNetwork(t *testing.T) {
	o := pgtest.Options{Sim: sim.Config{MaxDelay: time.Second}}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		m := Mean{sum: 1, count: 1}
		mean, err := m.Over(t.Context(), g)
		require.NoError(t, err)
		require.InDelta(t, 1, mean, 0)
	})
}

// TestMissingRank has rank 1 not take part: the others' limit of an hour passes at once.
func TestMissingRank(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Timeout = time.Hour }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(2 * time.Hour)
			return
		}
		_, err := new(Mean).Over(t.Context(), g)
		require.ErrorIs(t, err, colligo.ErrTimeout)
		require.ErrorContains(t, err, "rank 1")
	})
}
