package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/colligo-go/colligo/internal/launch"
)

// runJob starts the ranks of a job.
func (s system) runJob(args []string) int {
	var ranks int
	var settle, grace time.Duration
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.IntVar(&ranks, "n", 1, "`ranks` to start")
	f.DurationVar(&settle, "settle", launch.DefaultSettle, "`time` that the other ranks get after one has failed, to report errors and write dumps")
	f.DurationVar(&grace, "grace", launch.DefaultGrace, "`time` between SIGTERM and SIGKILL when the ranks have to end")
	if code, ok := s.parse(f, args); !ok {
		return code
	}
	switch {
	case ranks < 1:
		return s.misuse(f, fmt.Errorf("-n %d: at least one rank is needed", ranks))
	case settle <= 0:
		return s.misuse(f, fmt.Errorf("-settle %v: must be more than 0", settle))
	case grace <= 0:
		return s.misuse(f, fmt.Errorf("-grace %v: must be more than 0", grace))
	case f.NArg() == 0:
		return s.misuse(f, errors.New("no program named"))
	}
	out, errs := launch.NewLines(s.stdout), launch.NewLines(s.stderr)
	var streams []*launch.Stream
	job := launch.Job{Program: f.Arg(0), Args: f.Args()[1:], Env: s.environ, Ranks: ranks, Settle: settle, Grace: grace, Signals: s.signals(),
		Output: func(rank int) (stdout, stderr io.Writer) {
			prefix := fmt.Sprintf("[%d] ", rank)
			a, b := out.Stream(prefix), errs.Stream(prefix)
			streams = append(streams, a, b)
			return a, b
		}}
	err := job.Run(context.Background())
	for _, stream := range streams {
		err = errors.Join(err, stream.Flush())
	}
	return s.exitCode(err)
}

// exitCode reports why a job failed.
func (s system) exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(s.stderr, "colligo run: %v\n", err)
	var f *launch.Failure
	if errors.As(err, &f) && f.Code != 0 {
		return f.Code
	}
	return 1
}
