package debug

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// part is something that can be asked for.
type part struct {
	name, about string
	answer      func(w http.ResponseWriter, r *http.Request, groups []*pg.Group)
}

// parts are listed by the index page in this order.
func parts() []part {
	return []part{
		{"waiting", "who waits for whom: where each rank is, asked anew every two seconds", waiting},
		{"waiting_json", "the same as JSON", waitingJSON},
		{"metrics", "operations, bytes, durations, and traffic by peer, as Prometheus reads them", metrics},
		{"metrics_json", "the same as JSON", metricsJSON},
		{"status", "the group on one line, and its error", status},
		{"dump_nccl_trace_json", "what the flight recorder holds, as JSON; for colligo trace", func(w http.ResponseWriter, r *http.Request, groups []*pg.Group) { dump(w, r, groups[0], true) }},
		{"dump_nccl_trace_pickle", "the same in PyTorch's format", func(w http.ResponseWriter, r *http.Request, groups []*pg.Group) { dump(w, r, groups[0], false) }},
		{"settings", "the environment variables that groups read", settings},
	}
}

// Handler answers GET and POST requests by the last part of their path. A path that ends in a slash is the index page, which
// lists the parts:
//
//	waiting, waiting_json                         where each rank is, and for whom it waits
//	metrics, metrics_json                         counts in Prometheus' text format, and as JSON
//	status                                        each group on one line, and its error
//	dump_nccl_trace_json, dump_nccl_trace_pickle  the flight recorder of the process, by PyTorch's names
//	settings                                      the environment variables
//
// The dumps take includecollectives, includestacktraces (both true unless said otherwise) and onlyactive, each true or false.
// The parts waiting and waiting_json take peers: with false they are about this rank alone, and ask nobody. Groups beside the
// first are those made of it that are to be seen, too.
func Handler(g *pg.Group, more ...*pg.Group) http.Handler {
	groups := append([]*pg.Group{g}, more...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
			http.Error(w, "GET or POST", http.StatusMethodNotAllowed)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/") {
			index(w, groups)
			return
		}
		var names []string
		for _, p := range parts() {
			if p.name == path.Base(r.URL.Path) {
				p.answer(w, r, groups)
				return
			}
			names = append(names, p.name)
		}
		http.Error(w, "there are "+strings.Join(names, ", "), http.StatusNotFound)
	})
}

func status(w http.ResponseWriter, _ *http.Request, groups []*pg.Group) {
	for _, g := range groups {
		fmt.Fprintln(w, g)
		if err := g.Err(); err != nil {
			fmt.Fprintln(w, err)
		}
	}
}

func settings(w http.ResponseWriter, _ *http.Request, _ []*pg.Group) {
	for _, s := range pg.Settings() {
		fmt.Fprintln(w, s)
	}
}

// flagOf reads a parameter that is true or false. It answers the request itself, and reports false, if it is neither.
func flagOf(w http.ResponseWriter, r *http.Request, name string, to *bool) bool {
	text := r.FormValue(name)
	if text == "" {
		return true
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		http.Error(w, fmt.Sprintf("%s is %q, want true or false", name, text), http.StatusBadRequest)
		return false
	}
	*to = v
	return true
}

// dump writes what the flight recorder holds.
func dump(w http.ResponseWriter, r *http.Request, g *pg.Group, asJSON bool) {
	o := flight.DumpOptions{Entries: true, Frames: true}
	if !flagOf(w, r, "includecollectives", &o.Entries) || !flagOf(w, r, "includestacktraces", &o.Frames) || !flagOf(w, r, "onlyactive", &o.OnlyActive) {
		return
	}
	d := g.Dump(o)
	// An error here is one of the connection, which has its own ways to be seen.
	if asJSON {
		w.Header().Set("Content-Type", "application/json")
		_ = d.WriteJSON(w)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_ = d.WritePickle(w)
}

// writeJSON writes a value whose fields carry the names that it has in JSON.
func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // an error is one of the connection
}
