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

// The numbers of lines of a report, and of lanes, up to which the page shows the whole report at once.
const shortReport, fewLanes = 8, 16

// WriteHTML writes what ranks did as one page with the verdict on top, lanes by rank and group, and what is wrong in red.
func WriteHTML(w io.Writer, dumps map[int]*flight.Dump, r *Report) error {
	class := "bad"
	if r.OK() {
		class = "well"
	}
	_, rest, _ := strings.Cut(r.String(), "\n")
	open := ""
	p := draw(dumps, r)
	if strings.Count(rest, "\n") <= shortReport && len(p.lanes) <= fewLanes {
		open = " open"
	}
	fill := strings.NewReplacer("{{open}}", open, "{{css}}", pageCSS, "{{js}}", pageJS, "{{class}}", class,
		"{{verdict}}", html.EscapeString(r.Verdict()), "{{report}}", reportHTML(rest))
	before, after, _ := strings.Cut(pageHTML, "{{data}}")
	s := newScript(w)
	s.raw(fill.Replace(before))
	p.write(s)
	s.raw(fill.Replace(after))
	if err := s.flush(); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// reportHTML is a report whose lines keep their indentation where they are too long for the page.
func reportHTML(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		words := strings.TrimLeft(line, " ")
		fmt.Fprintf(&b, "<div style=\"margin-left:%dch\">%s</div>\n", len(line)-len(words), html.EscapeString(strings.TrimSpace(words)))
	}
	return b.String()
}

// write writes what the page's program draws: an object with start (ns since 1970), lanes, names (the titles of bars), breaks
// and hidden. A break is a time left out of the axis. It is from and to in µs, its share of the width, and 1 if an
// operation goes on. Hidden is the number of ranks without a dump that have no lane.
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
	s.raw(`,"breaks":`)
	s.list(len(p.breaks), func(i int) {
		b, waits := p.breaks[i], 0
		if b.waits {
			waits = 1
		}
		s.value([4]any{float64(b.from) / 1000, float64(b.to) / 1000, b.share, waits})
	})
	s.raw(fmt.Sprintf(`,"hidden":%d}`, p.hidden))
}

// write writes a lane: rank, group, the number of rows, its bars, and about, the text of each bar. A bar is its row, from, to
// and started in µs (-1 if not known), and the number of its name. The lists bad and open number the bars that a finding is
// about, and the ones that have not ended. Nodump is true where the rank left no dump. A slot is what a rank has not called. It is
// its row, from and to in µs, its text, 1 if the rank died at its end, and what is wrong.
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
	s.raw(fmt.Sprintf(`,"nodump":%t,"slots":`, l.noDump))
	s.list(len(l.slots), func(i int) {
		x, died := l.slots[i], 0
		if x.died {
			died = 1
		}
		s.value([6]any{x.row, float64(x.from) / 1000, float64(x.to) / 1000, x.text, died, clip(x.finding.Text, mostText)})
	})
	s.raw("}")
}
