package debug_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/debug"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// sample is a line of Prometheus' text format.
var sample = regexp.MustCompile(`^([a-z_:][a-z0-9_:]*)\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\} ([^ ]+)$`)

// scrape reads Prometheus' text format as strictly as Prometheus does. Every sample belongs to the family that is named last. The
// counts of a histogram never fall.
func scrape(t *testing.T, text string) map[string]float64 {
	t.Helper()
	require.True(t, strings.HasSuffix(text, "\n"))
	found := map[string]float64{}
	family, kind, before := "", "", 0.0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			was := family
			family, kind, _ = strings.Cut(rest, " ")
			require.NotEqual(t, was, family)
			require.Contains(t, []string{"counter", "gauge", "histogram"}, kind)
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		m := sample.FindStringSubmatch(line)
		require.NotNil(t, m, line)
		name := m[1]
		if kind == "histogram" {
			for _, ending := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, ending)
			}
		}
		require.Equal(t, family, name)
		require.Equal(t, kind == "counter", strings.HasSuffix(family, "_total"), family)
		x, err := strconv.ParseFloat(m[3], 64)
		require.NoError(t, err)
		if strings.HasSuffix(m[1], "_bucket") {
			require.True(t, x >= before || strings.Contains(m[2], `le="1e-06"`), line)
			before = x
		}
		_, twice := found[m[1]+"{"+m[2]+"}"]
		require.False(t, twice, line)
		found[m[1]+"{"+m[2]+"}"] = x
	}
	return found
}

// TestMetrics counts operations of two groups, whose names need care.
func TestMetrics(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		sub, err := g.NewGroup(t.Context(), []int{0, 1})
		require.NoError(t, err)
		x := colligo.Of(make([]float32, 25))
		for range 3 {
			if g.Rank() == 0 {
				time.Sleep(3 * time.Second)
			}
			require.NoError(t, g.AllReduce(t.Context(), x, colligo.Sum))
		}
		require.NoError(t, sub.Broadcast(t.Context(), x, 0))
		var b bytes.Buffer
		require.NoError(t, debug.WriteMetrics(&b, g, sub))
		rank := strconv.Itoa(g.Rank())
		mine := `{group="0",rank="` + rank + `"`
		all := `{group="0",rank="` + rank + `",operation="ALLREDUCE"`
		found := scrape(t, b.String())
		for name, want := range map[string]float64{
			"colligo_group_size" + mine + "}":                                                           2,
			"colligo_group_failed" + mine + "}":                                                         0,
			"colligo_operations_pending" + mine + "}":                                                   0,
			"colligo_operations_total" + all + `,result="done"}`:                                        3,
			"colligo_operations_total" + all + `,result="failed"}`:                                      0,
			"colligo_operation_bytes_total" + all + "}":                                                 300,
			"colligo_peer_sent_bytes_total" + mine + `,peer="` + strconv.Itoa(1-g.Rank()) + `"}`:        300,
			"colligo_peer_sent_messages_total" + mine + `,peer="` + strconv.Itoa(1-g.Rank()) + `"}`:     3,
			"colligo_peer_received_bytes_total" + mine + `,peer="` + strconv.Itoa(1-g.Rank()) + `"}`:    300,
			"colligo_peer_received_messages_total" + mine + `,peer="` + strconv.Itoa(1-g.Rank()) + `"}`: 3,
			"colligo_operation_duration_seconds_count" + all + "}":                                      3,
			"colligo_operation_duration_seconds_bucket" + all + `,le="+Inf"}`:                           3,
		} {
			require.Contains(t, found, name, b.String())
			require.InDelta(t, want, found[name], 0, name)
		}
		if g.Rank() == 1 {
			require.InDelta(t, 9, found["colligo_operation_duration_seconds_sum"+all+"}"], 0.5)
			require.InDelta(t, 3, found["colligo_operation_duration_longest_seconds"+all+"}"], 0.5)
			require.Zero(t, found["colligo_operation_duration_seconds_bucket"+all+`,le="1.048576"}`])
			require.InDelta(t, 3, found["colligo_operation_duration_seconds_bucket"+all+`,le="4.194304"}`], 0)
		}
		require.InDelta(t, 1, found[`colligo_operations_total{group="`+sub.Name()+`",rank="`+rank+`",operation="BROADCAST",result="done"}`], 0)
	})
}

// TestMetricsOfFailed tells a group that has failed.
func TestMetricsOfFailed(t *testing.T) {
	pgtest.Run(t, 1, func(t *testing.T, g *pg.Group) {
		g.Abort(errors.New("enough"))
		var b bytes.Buffer
		require.NoError(t, debug.WriteMetrics(&b, g))
		require.InDelta(t, 1, scrape(t, b.String())[`colligo_group_failed{group="0",rank="0"}`], 0)
	})
}

// TestWaiting asks rank 1, for which two others wait, who waits for whom.
func TestWaiting(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		x := colligo.Of(make([]float32, 4))
		if g.Rank() != 1 {
			require.NoError(t, g.AllReduce(t.Context(), x, colligo.Sum))
			return
		}
		time.Sleep(time.Second)
		ask := func(part string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			debug.Handler(g).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/colligo/"+part, nil))
			require.Equal(t, http.StatusOK, w.Code)
			return w
		}
		page := ask("waiting").Body.String()
		require.Contains(t, page, `<meta http-equiv="refresh" content="2">`)
		require.Regexp(t, `<tr class="waits"><td>0</td><td>1(, 2)?</td><td>is in all_reduce #1 [^<]*, waits for bytes from rank`, page)
		require.Contains(t, page, `<tr class="awaited"><td>1</td><td></td><td>has nothing pending</td></tr>`)
		require.Contains(t, page, `<p>rank 1 is waited for, and waits for nobody; ranks 0, 2 wait</p>`)
		require.Contains(t, ask("waiting?peers=false").Body.String(), `<p>the other ranks have not been asked</p>`)
		var groups []struct {
			Group string
			Ranks []struct {
				Rank     int
				Answered bool
				Does     string
				WaitsFor []int `json:"waits_for"`
			}
		}
		require.NoError(t, json.Unmarshal(ask("waiting_json").Body.Bytes(), &groups))
		require.Len(t, groups, 1)
		require.Len(t, groups[0].Ranks, 3)
		require.True(t, groups[0].Ranks[2].Answered)
		require.Contains(t, groups[0].Ranks[2].WaitsFor, 1)
		require.NoError(t, json.Unmarshal(ask("waiting_json?peers=false").Body.Bytes(), &groups))
		require.Len(t, groups[0].Ranks, 1)
		var counts []map[string]any
		require.NoError(t, json.Unmarshal(ask("metrics_json").Body.Bytes(), &counts))
		require.Contains(t, counts[0], "duration_bounds_ns")
		require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", ask("metrics").Header().Get("Content-Type"))
		require.NoError(t, g.AllReduce(t.Context(), x, colligo.Sum))
	})
}
