package storetest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// Main runs a package's tests and fails if goroutines are left over five seconds after the last. A fuzzing process
// starts goroutines of its own, so it is not checked.
func Main(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	if fuzzing("test.fuzz") || fuzzing("test.fuzzworker") {
		os.Exit(code)
	}
	for end := time.Now().Add(time.Minute); code == 0 && runtime.NumGoroutine() > before; {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			fmt.Fprintf(os.Stderr, "goroutines leaked: %d before, %d after\n%s\n", before, runtime.NumGoroutine(), stacks)
			code = 1
		}
		time.Sleep(5 * time.Millisecond)
	}
	os.Exit(code)
}

// fuzzing reports whether one of the testing package's flags is set.
func fuzzing(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != f.DefValue
}
