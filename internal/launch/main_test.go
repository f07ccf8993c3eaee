package launch

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"testing"
	"time"
)

// mode names the variable that turns this test's program into a rank; see programs.
const mode = "LAUNCH_TEST_MODE"

// TestMain runs the tests, or a program for them, and fails if goroutines are left.
func TestMain(m *testing.M) {
	if name := os.Getenv(mode); name != "" {
		os.Exit(programs[name]())
	}
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // starts the goroutine that package signal keeps
	signal.Reset()
	before := runtime.NumGoroutine()
	code := m.Run()
	for end := time.Now().Add(time.Minute); code == 0 && runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<16)
			fmt.Fprintf(os.Stderr, "goroutines leaked:\n%s\n", stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
	}
	os.Exit(code)
}
