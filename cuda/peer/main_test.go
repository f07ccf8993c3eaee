package peer

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain spends memory, of which the tests need little at a time, to save a seventh of their time in the garbage collector.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
