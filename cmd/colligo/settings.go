package main

import (
	"flag"
	"fmt"

	"github.com/colligo-go/colligo/pg"
)

// settings lists the environment variables of package pg.
func (s system) settings(args []string) int {
	f := flag.NewFlagSet("settings", flag.ContinueOnError)
	if code, ok := s.parse(f, args); !ok {
		return code
	}
	if f.NArg() > 0 {
		return s.misuse(f, fmt.Errorf("unexpected argument %q", f.Arg(0)))
	}
	for _, one := range pg.Settings() {
		fmt.Fprintln(s.stdout, one)
	}
	return 0
}
