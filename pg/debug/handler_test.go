package debug_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/debug"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/store"
)

var links = regexp.MustCompile(`<a href="(\w+)">`)

// TestHandler asks for everything that there is, and for what there is not.
func TestHandler(t *testing.T) {
	g, err := pg.Init(context.Background(), pg.Config{Store: store.NewHash(), Size: 1})
	require.NoError(t, err)
	defer g.Close()
	require.NoError(t, g.AllReduce(t.Context(), colligo.Of(make([]float32, 4)), colligo.Sum))
	h := debug.Handler(g)
	ask := func(method, url string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, url, nil))
		return w
	}
	for _, format := range []string{"pickle", "json"} {
		for query, entries := range map[string]int{"": 1, "?includecollectives=false": 0, "?includestacktraces=false": 1} {
			w := ask(http.MethodGet, "/debug/colligo/dump_nccl_trace_"+format+query)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			d, err := flight.Read(w.Body)
			require.NoError(t, err)
			require.Len(t, d.Entries, entries)
			require.Contains(t, d.Groups, g.Name())
		}
	}
	require.Contains(t, ask(http.MethodGet, "/status").Body.String(), "rank 0 of 1")
	require.Contains(t, ask(http.MethodGet, "/settings").Body.String(), "COLLIGO_NAN_CHECK")
	index := ask(http.MethodGet, "/debug/colligo/")
	require.Equal(t, "text/html; charset=utf-8", index.Header().Get("Content-Type"))
	for _, link := range links.FindAllStringSubmatch(index.Body.String(), -1) {
		w := ask(http.MethodGet, "/debug/colligo/"+link[1])
		require.Equal(t, http.StatusOK, w.Code, link[1])
		require.NotEmpty(t, w.Body.String(), link[1])
	}
	require.Len(t, links.FindAllString(index.Body.String(), -1), 8)
	require.Equal(t, http.StatusBadRequest, ask(http.MethodGet, "/waiting?peers=perhaps").Code)
	require.Equal(t, http.StatusBadRequest, ask(http.MethodGet, "/waiting_json?peers=perhaps").Code)
	require.Equal(t, http.StatusNotFound, ask(http.MethodGet, "/else").Code)
	require.Equal(t, http.StatusBadRequest, ask(http.MethodGet, "/dump_nccl_trace_json?onlyactive=perhaps").Code)
	require.Equal(t, http.StatusMethodNotAllowed, ask(http.MethodDelete, "/status").Code)
}
