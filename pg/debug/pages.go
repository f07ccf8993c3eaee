package debug

import (
	"bufio"
	"fmt"
	"html"
	"net/http"
	"strings"

	"github.com/colligo-go/colligo/pg"
)

// style is that of both pages, in light and dark.
const style = `<style>
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em; max-width: 70em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { text-align: left; vertical-align: top; padding: .2em 1.2em .2em 0; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent) }
tr.waits td:first-child { border-left: 4px solid #d97706; padding-left: .5em }
tr.silent td:first-child { border-left: 4px solid #dc2626; padding-left: .5em }
</style>
`

// page begins a page. An error of w is one of the connection.
func page(w http.ResponseWriter, title, head string) *bufio.Writer {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>\n%s%s</head><body>\n<h1>%[1]s</h1>\n", title, head, style)
	return b
}

// about says on one line what a group is, and below it why it has failed.
func about(b *bufio.Writer, g *pg.Group) {
	fmt.Fprintf(b, "<p>%s</p>\n", html.EscapeString(g.String()))
	if err := g.Err(); err != nil {
		fmt.Fprintf(b, "<p>failed: %s</p>\n", html.EscapeString(err.Error()))
	}
}

// index lists the parts.
func index(w http.ResponseWriter, groups []*pg.Group) {
	b := page(w, "colligo", "")
	for _, g := range groups {
		about(b, g)
	}
	fmt.Fprint(b, "<table>\n")
	for _, p := range parts() {
		fmt.Fprintf(b, "<tr><td><a href=\"%s\">%[1]s</a></td><td>%s</td></tr>\n", p.name, html.EscapeString(p.about))
	}
	fmt.Fprint(b, "</table>\n</body></html>\n")
	_ = b.Flush()
}

// standings asks where the ranks of all groups are. It answers the request itself, and reports false, if it makes no sense.
func standings(w http.ResponseWriter, r *http.Request, groups []*pg.Group) (all [][]pg.RankStanding, ok bool) {
	peers := true
	if !flagOf(w, r, "peers", &peers) {
		return nil, false
	}
	for _, g := range groups {
		all = append(all, pg.RankStandings(g, peers))
	}
	return all, true
}

// waiting shows where each rank is. The page asks anew by itself.
func waiting(w http.ResponseWriter, r *http.Request, groups []*pg.Group) {
	all, ok := standings(w, r, groups)
	if !ok {
		return
	}
	b := page(w, "who waits for whom", "<meta http-equiv=\"refresh\" content=\"2\">\n")
	for i, g := range groups {
		about(b, g)
		fmt.Fprint(b, "<table>\n<tr><th>rank</th><th>waits for rank</th><th>does</th></tr>\n")
		for _, s := range all[i] {
			row(b, s)
		}
		fmt.Fprint(b, "</table>\n")
	}
	fmt.Fprint(b, "</body></html>\n")
	_ = b.Flush()
}

// row is one rank.
func row(b *bufio.Writer, s pg.RankStanding) {
	class := ""
	switch {
	case !s.Answered:
		class = ` class="silent"`
	case len(s.WaitsFor) > 0:
		class = ` class="waits"`
	}
	from := strings.ReplaceAll(strings.Trim(fmt.Sprint(s.WaitsFor), "[]"), " ", ", ")
	fmt.Fprintf(b, "<tr%s><td>%d</td><td>%s</td><td>%s</td></tr>\n", class, s.Rank, from, html.EscapeString(s.Does))
}

// group is where the ranks of one group are.
type group struct {
	Group string            `json:"group"`
	Error string            `json:"error,omitempty"`
	Ranks []pg.RankStanding `json:"ranks"`
}

func waitingJSON(w http.ResponseWriter, r *http.Request, groups []*pg.Group) {
	all, ok := standings(w, r, groups)
	if !ok {
		return
	}
	var found []group
	for i, g := range groups {
		one := group{Group: g.Name(), Ranks: all[i]}
		if err := g.Err(); err != nil {
			one.Error = err.Error()
		}
		found = append(found, one)
	}
	writeJSON(w, found)
}
