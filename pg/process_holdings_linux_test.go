package pg_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// held counts what a process holds: goroutines, and descriptors and mappings by what they refer to.
type held map[string]int

const goroutines = "goroutines"

// holdings looks at this process.
func holdings() held {
	h := held{goroutines: runtime.NumGoroutine()}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil { // the descriptor of the folder itself
			continue
		}
		kind, _, _ := strings.Cut(to, ":")
		switch {
		case strings.HasPrefix(to, "socket:"), strings.Contains(to, "memfd"), strings.HasPrefix(to, "pipe:"):
			h[kind]++
		case strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/proc") && !strings.HasPrefix(to, "/dev") && !strings.HasPrefix(to, "/sys"):
			h[to]++
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		panic(err)
	}
	if n := strings.Count(string(maps), "memfd:"); n > 0 {
		h["mappings of shared memory"] = n
	}
	return h
}

// beyond says what is held more than before; goroutines get a moment to end.
func (h held) beyond(before held) []string {
	for wait := time.Millisecond; h[goroutines] > before[goroutines] && wait < 8*time.Second; wait *= 2 {
		time.Sleep(wait)
		h[goroutines] = runtime.NumGoroutine()
	}
	var more []string
	for what, n := range h {
		if extra := n - before[what]; extra > 0 {
			more = append(more, fmt.Sprintf("%d %s", extra, what))
			if what == goroutines {
				stacks := make([]byte, 64<<10)
				more = append(more, string(stacks[:runtime.Stack(stacks, true)]))
			}
		}
	}
	return more
}
