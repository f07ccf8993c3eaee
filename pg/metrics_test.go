package pg_test

import (
	"encoding/json"
	"expvar"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

var _ expvar.Var = pg.Metrics{}

// TestMetrics counts operations, bytes and times by what was called.
func TestMetrics(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		x := colligo.Of(make([]float32, 25))
		for range 3 {
			if g.Rank() == 0 {
				time.Sleep(3 * time.Second)
			}
			require.NoError(t, g.AllReduce(t.Context(), x, colligo.Sum))
		}
		if g.Rank() == 0 {
			require.NoError(t, g.Send(t.Context(), x, 1, 0))
		} else {
			require.NoError(t, g.Recv(t.Context(), x, 0, 0))
		}
		var v expvar.Var = g.MetricsVar()
		var m pg.Metrics
		require.NoError(t, json.Unmarshal([]byte(v.String()), &m))
		require.Equal(t, g.Metrics(), m)
		require.Equal(t, []any{"0", g.Rank(), 0}, []any{m.Group, m.Rank, m.Pending})
		require.Len(t, m.Ops, 2)
		r := m.Ops["ALLREDUCE"]
		require.Equal(t, []uint64{3, 0, 300, 3}, []uint64{r.Done, r.Failed, r.Bytes, r.Timed})
		if g.Rank() == 1 {
			require.GreaterOrEqual(t, r.Total, 9*time.Second)
			require.Less(t, r.Longest, 4*time.Second)
			require.Equal(t, uint64(3), r.Durations[11], "%v to %v", pg.DurationBound(10), pg.DurationBound(11))
		}
		require.Equal(t, uint64(1), m.Ops[[]string{"SEND", "RECV"}[g.Rank()]].Done)
		require.JSONEq(t, m.String(), v.String())
		require.Regexp(t, `"operations":\{"ALLREDUCE":\{"done":3,"failed":0,"bytes":300,"timed":3,"total_ns":\d+,"longest_ns":\d+,"duration_counts":\[`, v.String())
		require.Contains(t, v.String(), `"duration_bounds_ns":[1000,4000,16000,`)
	})
}

// TestDurationBounds puts durations on both sides of every bound.
func TestDurationBounds(t *testing.T) {
	var last time.Duration
	for i := 0; pg.DurationBound(i) > 0; i++ {
		require.Greater(t, pg.DurationBound(i), last)
		last = pg.DurationBound(i)
	}
	require.Greater(t, last, time.Hour)
	require.Zero(t, pg.DurationBound(-1))
}

// TestMetricsOfRefused counts nothing that never was an operation.
func TestMetricsOfRefused(t *testing.T) {
	g := alone(t)
	require.Error(t, g.Broadcast(t.Context(), colligo.Of([]int32{1}), 7))
	require.Empty(t, g.Metrics().Ops)
	require.Zero(t, g.Pending())
	require.NoError(t, g.Broadcast(t.Context(), colligo.Of([]int32{1}), 0))
	require.Equal(t, uint64(1), g.Metrics().Ops["BROADCAST"].Done)
}
