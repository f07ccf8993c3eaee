package trace

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/colligo-go/colligo/pg/flight"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

// pageData is what the page's program draws.
type pageData struct {
	Start string     `json:"start"` // ns since 1970
	Lanes []pageLane `json:"lanes"`
	Names []string   `json:"names"` // of bars
}

type pageLane struct {
	Rank  int      `json:"rank"`
	Group string   `json:"group"`
	Rows  int      `json:"rows"`
	Bars  [][5]any `json:"bars"` // row, from, to and started in µs (-1 if not known), number of the name
	About []string `json:"about"`
	Bad   []int    `json:"bad"`  // bars that a finding is about
	Open  []int    `json:"open"` // bars that have not ended
}

// WriteHTML writes what ranks did as one page with the verdict on top, lanes by rank and group, and what is wrong in red.
func WriteHTML(w io.Writer, dumps map[int]*flight.Dump, r *Report) error {
	data, err := json.Marshal(draw(dumps, r).page()) // escapes what would end the script element
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	class := "bad"
	if r.OK() {
		class = "well"
	}
	_, rest, _ := strings.Cut(r.String(), "\n")
	_, err = strings.NewReplacer("{{css}}", pageCSS, "{{js}}", pageJS, "{{data}}", string(data), "{{class}}", class,
		"{{verdict}}", html.EscapeString(r.Verdict()), "{{report}}", html.EscapeString(rest)).WriteString(w, pageHTML)
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

func (p *picture) page() pageData {
	d := pageData{Start: fmt.Sprint(p.start), Lanes: []pageLane{}, Names: []string{}}
	numbers := map[string]int{}
	for i := range p.lanes {
		l := &p.lanes[i]
		out := pageLane{Rank: l.rank, Group: l.group, Rows: l.rows, Bars: [][5]any{}, Bad: []int{}, Open: []int{}}
		for j := range l.bars {
			b := &l.bars[j]
			n, ok := numbers[b.title()]
			if !ok {
				n = len(d.Names)
				numbers[b.title()], d.Names = n, append(d.Names, b.title())
			}
			started := -1.0
			if b.started >= 0 {
				started = float64(b.started) / 1000
			}
			out.Bars = append(out.Bars, [5]any{b.row, float64(b.from) / 1000, float64(b.to) / 1000, started, n})
			out.About = append(out.About, b.about(l))
			if b.finding != nil {
				out.Bad = append(out.Bad, j)
			}
			if b.entry.State != flight.Completed {
				out.Open = append(out.Open, j)
			}
		}
		d.Lanes = append(d.Lanes, out)
	}
	return d
}
