// Versions compares the speed of two versions of colligo on one machine. It builds both and runs the same benchmarks of both by
// turns. For each it prints the ratio of the new version's time to the old one's.
//
//	go run ./bench/versions -old v1.2.0
//	go run ./bench/versions -old main -packages pg,transport/shm -bench 'Call|PingPong' -collectives ''
//	go run ./bench/versions -old main -packages '' -collectives all_gather -ranks 4 -transports shm -sizes 2Mi -n 300 -turns 41
//
// A machine is seldom as fast in one minute as in the one before. So versions take turns. Two ratios are printed: that of the medians,
// and the median of the ratios within a turn. A benchmark with both ratios beyond the limit runs again, with more turns. If they still are,
// it is reported as slower, and the exit code is 1. In these turns the old version runs twice. Its ratios to itself are printed as the
// control: they would be 1 on a quiet machine.
//
// A machine without Go runs what another has built: -build writes both versions' programs into a folder, and -built measures those.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options is what the command line asks for.
type options struct {
	old, new     string // revisions; an empty new one is the working tree
	build, built string // folders
	packages     []string
	pattern      string
	benchtime    string
	collectives  []string
	ranks        []string
	transports   []string
	sizes        []string
	n            string
	extra        []string
	turns, again int
	limit        float64
}

// run returns the exit code: 0 if nothing has become slower, 1 if something has or went wrong, 2 for arguments that make no sense.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "versions: %v\n", err)
		return 2
	}
	slower, err := o.compare(stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "versions: %v\n", err)
		return 1
	}
	return min(slower, 1)
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("versions", flag.ContinueOnError)
	f.SetOutput(stderr)
	list := func(to *[]string, name, def, usage string) {
		*to = split(def)
		f.Func(name, fmt.Sprintf("%s (default %q)", usage, def), func(s string) error { *to = split(s); return nil })
	}
	f.StringVar(&o.old, "old", "", "`revision` of the old version")
	f.StringVar(&o.new, "new", "", "`revision` of the new version; without it, the working tree")
	f.StringVar(&o.build, "build", "", "build both versions into this `folder`, and measure nothing")
	f.StringVar(&o.built, "built", "", "measure what -build has left in this `folder`")
	list(&o.packages, "packages", "pg,pg/flight,transport/shm,transport/sim,transport/tcp,cuda/peer", "`packages` whose Go benchmarks run")
	f.StringVar(&o.pattern, "bench", ".", "`pattern` of their names")
	f.StringVar(&o.benchtime, "benchtime", "0.2s", "`time` or count of each, as go test has it")
	list(&o.collectives, "collectives", "all_reduce,reduce,broadcast,all_gather,reduce_scatter,all_to_all,barrier", "`collectives` that the program bench times")
	list(&o.ranks, "ranks", "2,4", "`numbers` of its ranks")
	list(&o.transports, "transports", "shm,tcp", "its `transports`")
	list(&o.sizes, "sizes", "8-2Mi*64,16Mi-64Mi*4", "`ranges` of its tensors' bytes: one length, or the least, the greatest and the factor between two")
	f.StringVar(&o.n, "n", "", "`iterations` of a size; without it, bench chooses")
	f.Func("extra", "further `arguments` of bench (default \"-device cpu\")", func(s string) error { o.extra = strings.Fields(s); return nil })
	o.extra = []string{"-device", "cpu"}
	f.IntVar(&o.turns, "turns", 5, "`turns` of each version")
	f.IntVar(&o.again, "again", 15, "`turns` of what is beyond the limit then; 0 for none")
	f.Float64Var(&o.limit, "limit", 1.03, "`ratio` from which on the new version is slower")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.built == "" && o.old == "":
		return nil, errors.New("-old must name a revision, or -built a folder")
	case o.built != "" && (o.old != "" || o.new != "" || o.build != ""):
		return nil, errors.New("-built takes what is there: -old, -new and -build do not go with it")
	case o.turns < 1 || o.again < 0:
		return nil, errors.New("-turns must be at least 1, and -again at least 0")
	}
	return o, nil
}

// split returns the parts of a list with commas; an empty list has none.
func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// compare builds, measures and prints, and returns how much has become slower.
func (o *options) compare(stdout, stderr io.Writer) (slower int, err error) {
	dir := o.built
	if dir == "" {
		if dir = o.build; dir == "" {
			if dir, err = os.MkdirTemp("", "colligo"); err != nil {
				return 0, err
			}
			defer os.RemoveAll(dir)
		}
		if err := o.buildBoth(dir, stderr); err != nil || o.build != "" {
			return 0, err
		}
	}
	suite, err := o.suite(dir)
	if err != nil {
		return 0, err
	}
	t := &table{limit: o.limit}
	if err := t.measure(suite, o.turns, false, stderr); err != nil {
		return 0, err
	}
	if more := t.beyond(stderr); o.again > 0 && len(more) > 0 {
		fmt.Fprintf(stderr, "beyond %[2]g: %[1]d; measuring again with %[3]d turns\n", len(more), o.limit, o.again)
		if err := t.measure(more, o.again, true, stderr); err != nil {
			return 0, err
		}
	}
	return t.print(stdout), nil
}
