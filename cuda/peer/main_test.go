package peer

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/colligo-go/colligo/internal/gputest"
)

// TestMain spends memory, of which the tests need little at a time, to save a seventh of their time in the garbage collector. On few
// processors it runs more tests at once than package testing would: many wait for a time limit or for a driver's thread.
func TestMain(m *testing.M) {
	gputest.Prepare()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	flag.Parse()
	if f, n := flag.Lookup("test.parallel"), runtime.GOMAXPROCS(0); !underRace && n < 6 && f.Value.String() == fmt.Sprint(n) {
		if err := f.Value.Set("6"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
