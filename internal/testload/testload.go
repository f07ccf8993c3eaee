// Package testload says how many tests of a package run at a time. Package testing runs as many as there are processors, which is too few
// where tests wait.
//
// Invariants:
//
//  1. The flag -parallel of go test has the last word.
//  2. No package gets fewer tests at a time than package testing would run.
//
// The package says neither which tests run nor in which order they begin.
package testload

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
)

// AtLeast has so many tests run at a time on fewer processors, unless -parallel says how many. It is for packages whose tests wait for time
// limits, processes or drivers, and is called by TestMain.
func AtLeast(tests int) {
	testing.Init()
	flag.Parse()
	f, usual := flag.Lookup("test.parallel"), runtime.GOMAXPROCS(0)
	if usual >= tests || f.Value.String() != fmt.Sprint(usual) {
		return
	}
	if err := f.Value.Set(fmt.Sprint(tests)); err != nil {
		panic(err)
	}
}
