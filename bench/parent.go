package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/colligo-go/colligo/internal/launch"
)

// keptOutput bounds what is kept of the output of each rank but the first, to be shown if it fails.
const keptOutput = 16 << 10

// runParents runs each number of ranks after another, and brings their records together where the output needs it.
func runParents(o *options, p process, args []string) int {
	if len(o.rankCounts) == 1 && !o.markdown {
		return runParent(o, p, args)
	}
	g := &gathering{out: p.stdout, pass: o.json}
	if o.markdown || o.json {
		args = append(args, "-json", "-markdown=false", "-plot=")
		p.stdout = g
	}
	for _, o.ranks = range o.rankCounts {
		if code := runParent(o, p, append(args, "-ranks", strconv.Itoa(o.ranks))); code != 0 {
			return code
		}
	}
	err := g.err
	if err == nil && o.markdown {
		_, err = io.WriteString(g.out, markdown(o, g.records, commandLine(args)))
	}
	if err == nil && o.plot != "" {
		err = g.draw(o.plot)
	}
	if err != nil {
		fmt.Fprintf(p.stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}

// gathering keeps the records that are written to it as lines of -json.
type gathering struct {
	out     io.Writer
	pass    bool // lines go on to out
	rest    []byte
	records []record
	err     error
}

// Write takes lines and parts of lines.
func (g *gathering) Write(b []byte) (int, error) {
	g.rest = append(g.rest, b...)
	for g.err == nil {
		line, rest, found := bytes.Cut(g.rest, []byte("\n"))
		if !found {
			break
		}
		var r record
		if g.err = json.Unmarshal(line, &r); g.err == nil && g.pass {
			_, g.err = fmt.Fprintf(g.out, "%s\n", line)
		}
		g.records, g.rest = append(g.records, r), rest
	}
	return len(b), nil
}

// draw writes the plot of all records.
func (g *gathering) draw(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("-plot: %w", err)
	}
	return errors.Join(drawPlot(f, g.records), f.Close())
}

// runParent starts this program once for each rank. Rank 0 writes to this process's output.
func runParent(o *options, p process, args []string) int {
	program, err := os.Executable()
	if err != nil {
		fmt.Fprintf(p.stderr, "bench: %v\n", err)
		return 1
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, launch.Forwarded()...)
	defer signal.Stop(signals)
	tails := make([]*launch.Tail, o.ranks)
	job := launch.Job{Program: program, Args: args, Env: p.environ, Ranks: o.ranks, Signals: signals,
		Output: func(rank int) (stdout, stderr io.Writer) {
			if rank == 0 {
				return p.stdout, p.stderr
			}
			tails[rank] = &launch.Tail{Limit: keptOutput}
			return tails[rank], tails[rank]
		}}
	err = job.Run(context.Background())
	if err == nil {
		return 0
	}
	fmt.Fprintf(p.stderr, "bench: %v\n", err)
	var f *launch.Failure
	if !errors.As(err, &f) {
		return 1
	}
	if t := tails[f.Rank]; t != nil && t.String() != "" {
		fmt.Fprintf(p.stderr, "  its output:\n%s\n", indent(t.String()))
	}
	return 1
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
