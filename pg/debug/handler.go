package debug

import (
	"fmt"
	"net/http"
	"path"
	"strconv"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// Handler answers GET and POST requests by the last part of their path. The parts dump_nccl_trace_pickle and
// dump_nccl_trace_json, PyTorch's names, dump the flight recorder. The part status tells the group's state on one line, and
// settings lists the environment variables. The dumps take includecollectives, includestacktraces (both true unless said
// otherwise) and onlyactive, each true or false.
func Handler(g *pg.Group) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
			http.Error(w, "GET or POST", http.StatusMethodNotAllowed)
			return
		}
		switch path.Base(r.URL.Path) {
		case "dump_nccl_trace_pickle":
			dump(w, r, g, false)
		case "dump_nccl_trace_json":
			dump(w, r, g, true)
		case "status":
			fmt.Fprintln(w, g)
			if err := g.Err(); err != nil {
				fmt.Fprintln(w, err)
			}
		case "settings":
			for _, s := range pg.Settings() {
				fmt.Fprintln(w, s)
			}
		default:
			http.Error(w, "there are dump_nccl_trace_pickle, dump_nccl_trace_json, status and settings", http.StatusNotFound)
		}
	})
}

// dump writes what the flight recorder holds.
func dump(w http.ResponseWriter, r *http.Request, g *pg.Group, asJSON bool) {
	o := flight.DumpOptions{Entries: true, Frames: true}
	for name, to := range map[string]*bool{"includecollectives": &o.Entries, "includestacktraces": &o.Frames, "onlyactive": &o.OnlyActive} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		v, err := strconv.ParseBool(text)
		if err != nil {
			http.Error(w, fmt.Sprintf("%s is %q, want true or false", name, text), http.StatusBadRequest)
			return
		}
		*to = v
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
