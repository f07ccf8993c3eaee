package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/colligo-go/colligo/internal/launch"
)

// keptOutput bounds what is kept of the output of each rank but the first, to be shown if it fails.
const keptOutput = 16 << 10

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
