// Package testload is for tests that wait, and for a machine that is busy. It says how many tests of a package run at a time. Package testing
// runs as many as there are processors, which is too few where tests wait. It holds a time that the machine may stretch. And it keeps
// the machine busy.
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
	"sync"
	"sync/atomic"
	"testing"
	"time"
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

// Soonest calls f, which returns how long something took, until that is less than a bound. After so many tries it fails t. A busy machine
// may hold up one try, but hardly all of them.
func Soonest(t testing.TB, tries int, bound time.Duration, f func() time.Duration) {
	t.Helper()
	soonest := f()
	for ; tries > 1 && soonest >= bound; tries-- {
		soonest = min(soonest, f())
	}
	if soonest >= bound {
		t.Fatalf("it took %v or more in each try, not less than %v", soonest, bound)
	}
}

// Busy keeps all processors busy until the test ends.
func Busy(t testing.TB) {
	var over atomic.Bool
	var begun, work sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		begun.Add(1)
		work.Go(func() {
			begun.Done()
			for !over.Load() {
			}
		})
	}
	begun.Wait()
	t.Cleanup(func() {
		over.Store(true)
		work.Wait()
	})
}
