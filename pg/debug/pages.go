package debug

import (
	"bufio"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/colligo-go/colligo/pg"
)

// style is that of both pages, in light and dark.
const style = `<style>
:root { color-scheme: light dark; --back: #fff; --ink: #1d2430; --faint: #626c7c; --line: #dde2ea; --link: #1d4ed8; --wait: #d97706; --bad: #c81e1e }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171c; --ink: #e4e8ef; --faint: #98a2b3; --line: #303743; --link: #8ab4ff; --wait: #f5a524; --bad: #ff6b6b }
}
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5em 2em; max-width: 72em; background: var(--back); color: var(--ink) }
h1 { font-size: 1.35em; margin: 0 0 .4em }
h2 { font-size: 1.05em; margin: 1.4em 0 .2em }
p { margin: .2em 0; overflow-wrap: anywhere }
a { color: var(--link) }
.faint { color: var(--faint) }
.bad { color: var(--bad) }
table { border-collapse: collapse; margin: .6em 0 }
th { font-weight: 600; color: var(--faint) }
th, td { text-align: left; vertical-align: top; padding: .25em 1.4em .25em 0; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { border-left: 4px solid transparent; padding-left: .6em }
td:first-child { white-space: nowrap }
tr.waits td:first-child, i.waits { border-left: 4px solid var(--wait) }
tr.awaited td:first-child, i.awaited { border-left: 4px solid var(--bad) }
tr.silent td:first-child, i.silent { border-left: 4px dotted var(--bad) }
i { display: inline-block; height: 1em; margin: 0 .4em 0 1.2em; vertical-align: -.15em }
i:first-child { margin-left: 0 }
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
	name, rest, _ := strings.Cut(g.String(), ": ")
	fmt.Fprintf(b, "<h2>%s</h2>\n<p class=\"faint\">%s</p>\n", html.EscapeString(name), html.EscapeString(rest))
	if err := g.Err(); err != nil {
		fmt.Fprintf(b, "<p class=\"bad\">failed: %s</p>\n", html.EscapeString(err.Error()))
	}
}

// index lists the parts.
func index(w http.ResponseWriter, groups []*pg.Group) {
	b := page(w, "colligo", "")
	for _, g := range groups {
		about(b, g)
	}
	fmt.Fprint(b, "<h2>what there is</h2>\n<table>\n")
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
	fmt.Fprintf(b, "<p class=\"faint\">asked at %s, again every two seconds; <a href=\"./\">all pages</a></p>\n", time.Now().UTC().Format("15:04:05 UTC"))
	fmt.Fprint(b, "<p class=\"faint\"><i class=\"waits\"></i>waits<i class=\"awaited\"></i>is waited for, and waits for nobody"+
		"<i class=\"silent\"></i>does not answer</p>\n")
	for i, g := range groups {
		about(b, g)
		classes := classesOf(all[i])
		fmt.Fprintf(b, "<p>%s</p>\n<table>\n<tr><th>rank</th><th>waits for rank</th><th>does</th></tr>\n", summary(all[i], classes, g.Size()))
		for k, s := range all[i] {
			row(b, s, classes[k])
		}
		fmt.Fprint(b, "</table>\n")
	}
	fmt.Fprint(b, "</body></html>\n")
	_ = b.Flush()
}

// classesOf sorts ranks by what is to be seen of them: silent, waits, awaited, or nothing. A rank is awaited if others wait for it
// and it waits for nobody.
func classesOf(all []pg.RankStanding) []string {
	awaited := map[int]bool{}
	for _, s := range all {
		for _, rank := range s.WaitsFor {
			awaited[rank] = true
		}
	}
	classes := make([]string, len(all))
	for i, s := range all {
		switch {
		case !s.Answered:
			classes[i] = "silent"
		case len(s.WaitsFor) > 0:
			classes[i] = "waits"
		case awaited[s.Rank]:
			classes[i] = "awaited"
		}
	}
	return classes
}

// summary says on one line who waits, and who is waited for. Of a group of more ranks than it is told of, it is about this rank.
func summary(all []pg.RankStanding, classes []string, size int) string {
	ranks := map[string][]int{}
	for i, s := range all {
		ranks[classes[i]] = append(ranks[classes[i]], s.Rank)
	}
	var parts []string
	for _, p := range []struct{ class, one, many string }{
		{"awaited", "is waited for, and waits for nobody", "are waited for, and wait for nobody"},
		{"silent", "does not answer", "do not answer"}, {"waits", "waits", "wait"},
	} {
		switch of := ranks[p.class]; len(of) {
		case 0:
		case 1:
			parts = append(parts, fmt.Sprintf("rank %d %s", of[0], p.one))
		default:
			parts = append(parts, fmt.Sprintf("ranks %s %s", list(of), p.many))
		}
	}
	if len(all) < size {
		parts = append(parts, "the other ranks have not been asked")
	}
	if parts == nil {
		return "nobody waits"
	}
	return strings.Join(parts, "; ")
}

// list has ranks with commas.
func list(ranks []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ranks), "[]"), " ", ", ")
}

// row is one rank.
func row(b *bufio.Writer, s pg.RankStanding, class string) {
	if class != "" {
		class = fmt.Sprintf(" class=%q", class)
	}
	fmt.Fprintf(b, "<tr%s><td>%d</td><td>%s</td><td>%s</td></tr>\n", class, s.Rank, list(s.WaitsFor), html.EscapeString(s.Does))
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
