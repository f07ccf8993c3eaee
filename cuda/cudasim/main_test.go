package cudasim_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain fails if goroutines are left: every Sim is closed, and every coroutine ended.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before && code == 0 {
		stacks := make([]byte, 1<<16)
		fmt.Printf("%d goroutines are left\n%s\n", n-before, stacks[:runtime.Stack(stacks, true)])
		code = 1
	}
	os.Exit(code)
}
