package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/trace"
)

// trace compares the flight recorders' dumps of a job and says what is wrong. It returns 1 if something is, also if a dump cannot be
// read, whose rank counts as one that left none.
func (s system) trace(args []string) int {
	var page, timeline, prefix string
	f := flag.NewFlagSet("trace", flag.ContinueOnError)
	f.StringVar(&page, "html", "", "`file` for a page that shows what ranks did; it needs nothing but a browser")
	f.StringVar(&timeline, "timeline", "", "`file` for a trace that chrome://tracing and Perfetto show")
	f.StringVar(&prefix, "prefix", "", "`text` that the dumps' names begin with, before the rank; empty takes what they have in common")
	var folders []string
	for ; ; args = f.Args()[1:] { // flags may stand behind folders, too
		if code, ok := s.parse(f, args); !ok {
			return code
		}
		if f.NArg() == 0 {
			break
		}
		folders = append(folders, f.Arg(0))
	}
	if len(folders) == 0 {
		return s.misuse(f, errors.New("no folder named"))
	}
	paths, err := dumpsIn(folders, prefix)
	if err != nil {
		return s.misuse(f, err)
	}
	dumps, whole := map[int]*flight.Dump{}, true
	for rank, path := range paths {
		if dumps[rank], err = flight.ReadFile(path); err != nil {
			fmt.Fprintf(s.stderr, "colligo trace: %v\n", err)
			delete(dumps, rank)
			whole = false
		}
	}
	r := trace.Analyze(dumps)
	fmt.Fprint(s.stdout, r)
	err = errors.Join(writeTo(page, func(w io.Writer) error { return trace.WriteHTML(w, dumps, r) }),
		writeTo(timeline, func(w io.Writer) error { return trace.WriteTimeline(w, dumps, r) }))
	if err != nil {
		fmt.Fprintf(s.stderr, "colligo trace: %v\n", err)
		whole = false
	}
	if !r.OK() || !whole {
		return 1
	}
	return 0
}

// dumpsIn returns the dumps of folders, by rank.
func dumpsIn(dirs []string, prefix string) (map[int]string, error) {
	all := map[int]string{}
	for _, dir := range dirs {
		found, err := flight.Files(dir, prefix)
		if err != nil {
			return nil, err
		}
		for rank, path := range found {
			if other, twice := all[rank]; twice {
				return nil, fmt.Errorf("two dumps of rank %d: %s and %s", rank, other, path)
			}
			all[rank] = path
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no dumps in %q: files are named by a prefix and a rank", dirs)
	}
	return all, nil
}

// writeTo writes a file that the user asked for.
func writeTo(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
