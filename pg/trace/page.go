package trace

import (
	_ "embed"
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

// WriteHTML writes what ranks did as one page with the verdict on top, lanes by rank and group, and what is wrong in red.
func WriteHTML(w io.Writer, dumps map[int]*flight.Dump, r *Report) error {
	class := "bad"
	if r.OK() {
		class = "well"
	}
	_, rest, _ := strings.Cut(r.String(), "\n")
	fill := strings.NewReplacer("{{css}}", pageCSS, "{{js}}", pageJS, "{{class}}", class,
		"{{verdict}}", html.EscapeString(r.Verdict()), "{{report}}", html.EscapeString(rest))
	before, after, _ := strings.Cut(pageHTML, "{{data}}")
	s := newScript(w)
	s.raw(fill.Replace(before))
	draw(dumps, r).write(s)
	s.raw(fill.Replace(after))
	if err := s.flush(); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// write writes what the page's program draws: an object with start (ns since 1970), lanes, and names, the titles of bars.
func (p *picture) write(s *script) {
	s.raw(`{"start":`)
	s.value(fmt.Sprint(p.start))
	s.raw(`,"lanes":`)
	names, numbers := []string{}, map[string]int{}
	s.list(len(p.lanes), func(i int) {
		for j := range p.lanes[i].bars {
			title := p.lanes[i].bars[j].title()
			if _, ok := numbers[title]; !ok {
				numbers[title], names = len(names), append(names, title)
			}
		}
		p.lanes[i].write(s, numbers)
	})
	s.raw(`,"names":`)
	s.list(len(names), func(i int) { s.value(names[i]) })
	s.raw("}")
}

// write writes a lane: rank, group, the number of rows, its bars, and about, the text of each bar. A bar is its row, from, to
// and started in µs (-1 if not known), and the number of its name. The lists bad and open number the bars that a finding is
// about, and the ones that have not ended.
func (l *lane) write(s *script, numbers map[string]int) {
	s.raw(fmt.Sprintf(`{"rank":%d,"rows":%d,"group":`, l.rank, l.rows))
	s.value(l.group)
	bad, open := []int{}, []int{}
	s.raw(`,"bars":`)
	s.list(len(l.bars), func(i int) {
		b := &l.bars[i]
		started := -1.0
		if b.started >= 0 {
			started = float64(b.started) / 1000
		}
		s.value([5]any{b.row, float64(b.from) / 1000, float64(b.to) / 1000, started, numbers[b.title()]})
		if b.finding != nil {
			bad = append(bad, i)
		}
		if b.entry.State != flight.Completed {
			open = append(open, i)
		}
	})
	s.raw(`,"about":`)
	s.list(len(l.bars), func(i int) { s.value(l.bars[i].about(l)) })
	s.raw(`,"bad":`)
	s.value(bad)
	s.raw(`,"open":`)
	s.value(open)
	s.raw("}")
}
