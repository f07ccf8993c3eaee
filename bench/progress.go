package main

import (
	"fmt"
	"io"
)

// eraseLine returns to the line's start and empties it, on every terminal that knows ANSI codes.
const eraseLine = "\r\x1b[K"

// progress is the line at the bottom of a terminal. Nil shows nothing.
type progress struct {
	to          io.Writer
	done, total int
}

// next shows what is going on now. An error of the terminal is none of the measurement.
func (p *progress) next(what string) {
	if p == nil {
		return
	}
	p.done++
	_, _ = fmt.Fprintf(p.to, "%s%d/%d %s", eraseLine, p.done, p.total, what)
}

// clear empties the line, for what is printed next.
func (p *progress) clear() {
	if p != nil {
		_, _ = io.WriteString(p.to, eraseLine)
	}
}
