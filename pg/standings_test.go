package pg_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestRankStandings asks, while two ranks wait for the third, where all are.
func TestRankStandings(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		x := colligo.Of(make([]float32, 4))
		require.NoError(t, g.AllReduce(t.Context(), x, colligo.Sum))
		if g.Rank() != 1 {
			require.NoError(t, g.AllReduce(t.Context(), x, colligo.Sum))
			return
		}
		time.Sleep(time.Second)
		all := pg.RankStandings(g, true)
		require.Len(t, all, 3)
		for rank, s := range all {
			require.Equal(t, rank, s.Rank)
			require.True(t, s.Answered)
			if rank != 1 {
				require.Contains(t, s.Does, "is in all_reduce #2")
				require.Contains(t, s.Does, "waits for bytes from rank 1")
				require.Contains(t, s.WaitsFor, 1)
			}
		}
		require.Contains(t, all[1].Does, "has nothing pending, last completed #1")
		require.Equal(t, []int{}, all[1].WaitsFor)
		own := pg.RankStandings(g, false)
		require.Len(t, own, 1)
		require.Equal(t, 1, own[0].Rank)
		require.NoError(t, g.AllReduce(t.Context(), x, colligo.Sum))
	})
}

// TestRankStandingsOfSilent names a rank that cannot answer, and knows of its own receive.
func TestRankStandingsOfSilent(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Second)
			require.NoError(t, g.Send(t.Context(), colligo.Of([]int32{1}), 0, 0))
			return
		}
		w := g.RecvAsync(t.Context(), colligo.Of([]int32{0}), 1, 0)
		time.Sleep(time.Millisecond)
		s := pg.RankStandings(g, false)[0]
		require.Equal(t, []int{1}, s.WaitsFor)
		require.Contains(t, s.Does, "waits to receive from rank 1")
		text, err := json.Marshal(s)
		require.NoError(t, err)
		require.Contains(t, string(text), `"waits_for":[1]}`)
		require.NoError(t, w.Wait(t.Context()))
	})
	require.Nil(t, pg.RankStandings(nil, true))
	g := alone(t)
	require.Len(t, pg.RankStandings(g, true), 1)
	require.NoError(t, g.Close())
	require.Len(t, pg.RankStandings(g, true), 1, "a closed group is no reason to fail")
}
