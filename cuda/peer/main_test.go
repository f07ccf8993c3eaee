package peer

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/colligo-go/colligo/internal/gputest"
	"github.com/colligo-go/colligo/internal/testload"
)

// TestMain spends memory, of which the tests need little at a time, to save a seventh of their time in the garbage collector. More of
// them run at a time than there are processors, for many wait for a time limit or for a driver's thread.
func TestMain(m *testing.M) {
	gputest.Prepare()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if !underRace {
		testload.AtLeast(12)
	}
	os.Exit(m.Run())
}
