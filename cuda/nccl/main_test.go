package nccl_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestMain runs more tests at once on few processors than package testing would: those that are parallel wait for a time limit.
func TestMain(m *testing.M) {
	flag.Parse()
	if f, n := flag.Lookup("test.parallel"), runtime.GOMAXPROCS(0); n < 6 && f.Value.String() == fmt.Sprint(n) {
		if err := f.Value.Set("6"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
