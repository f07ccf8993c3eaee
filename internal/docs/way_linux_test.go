package docs

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// beside is the files that run once for each call and are no part of the way, by why.
var beside = map[string]string{
	"pg/group.go":                           "accessors of groups: the benchmark asks for the rank",
	"pg/internal/op/op.go":                  "accessors of operations",
	"pg/internal/op/layout.go":              "accessors of tensors",
	"pg/internal/op/optype.go":              "accessors of operations",
	"pg/internal/op/seq.go":                 "accessors of operations",
	"pg/internal/op/moment.go":              "the clock",
	"pg/internal/host/deadlines.go":         "between polls, after the first frame",
	"pg/internal/host/failure.go":           "asks after a poll whether the group has failed",
	"pg/internal/host/inquiry.go":           "at the end: answers to progress queries",
	"pg/internal/host/messages.go":          "asks whether there are messages",
	"pg/internal/oplog/counter.go":          "at the end: metrics",
	"pg/internal/oplog/hooks.go":            "at the end: asks whether there are hooks",
	"pg/internal/oplog/traffic.go":          "at the end: counts the plan's runs",
	"cuda/internal/streamorder/throttle.go": "records an event on some calls, as run.go says",
	"pg/internal/watchdog/devices.go":       "after the launch",
	"pg/internal/watchdog/queue.go":         "after the launch",
	"pg/internal/watchdog/conclude.go":      "after the launch: the watchdog's goroutine",
	"pg/internal/watchdog/standing.go":      "after the launch: the watchdog's goroutine",
	"cuda/graph.go":                         "on hosts that launch slowly, in the place of a launch",
	"cuda/stream.go":                        "after the launch: asks how far the device has come",
	"transport/shm/receive_linux.go":        "takes frames of the peer",
	"transport/shm/wait_linux.go":           "waits for frames of the peer",
}

// TestWayOfAllReduce holds the tables of architecture.md to what runs in each of many calls. Code belongs to the way of a call if it
// runs as many times more as a benchmark makes more calls.
func TestWayOfAllReduce(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	for begin, of := range map[string]measured{
		"From the call to the frame":  {"pg", []string{"bench_test.go", "needs_linux_test.go"}, "AllReduce$/transport=shm/ranks=2/bytes=4096$", 2},
		"From the call to the launch": {"cuda/peer", nil, "DeviceOp/recorder=on/^all_reduce$", 1},
	} {
		_, table, found := strings.Cut(string(text), "\n"+begin)
		require.True(t, found)
		table, _, _ = strings.Cut(table, "\n\nThe watchdog hears")
		table, _, _ = strings.Cut(table, "\n### ")
		listed := map[string]bool{}
		for _, m := range regexp.MustCompile("`([a-z0-9_/]+\\.go)`").FindAllStringSubmatch(table, -1) {
			listed[m[1]] = true
		}
		files := of.way(t)
		require.Equal(t, slices.Sorted(maps.Keys(listed)), files, begin)
		require.Contains(t, table, fmt.Sprintf("these %d files run", len(files)))
	}
}

// measured is a benchmark of blocking calls, and how many ranks make each call.
type measured struct {
	dir       string
	files     []string // that the benchmark needs of the package's tests; nil is all of them
	benchmark string
	ranks     int
}

// lookedAt is the packages whose files are counted, the same for every benchmark, so that each is compiled once.
var lookedAt = strings.Join([]string{module + "/pg", module + "/pg/flight", module + "/pg/internal/...", module + "/internal/engine",
	module + "/transport/shm", module + "/cuda", module + "/cuda/internal/...", module + "/cuda/peer"}, ",")

// way returns the files of which something runs once or more in each call of a benchmark.
func (m measured) way(t *testing.T) (files []string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "way.test")
	build := exec.Command("go", append([]string{"test", "-c", "-vet=off", "-ldflags=-w", "-covermode=atomic", "-coverpkg=" + lookedAt, "-o", binary}, m.files...)...)
	build.Dir = filepath.Join(root, m.dir)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	const few, many = 100, 2100
	counts := func(calls int) map[string]int {
		profile := filepath.Join(t.TempDir(), "profile")
		run := exec.Command(binary, "-test.run=^$", "-test.bench="+m.benchmark, fmt.Sprintf("-test.benchtime=%dx", calls), "-test.coverprofile="+profile)
		run.Dir = build.Dir
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return profiled(t, profile)
	}
	before, after := counts(few), counts(many)
	seen := map[string]bool{}
	for block, n := range after {
		name, _, _ := strings.Cut(block, ":")
		name = strings.TrimPrefix(name, "github.com/colligo-go/colligo/")
		if n-before[block] >= m.ranks*(many-few)*9/10 && beside[name] == "" { // a few launches go another way
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// profiled reads how often each block of a coverage profile has run.
func profiled(t *testing.T, path string) map[string]int {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	counts := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		block, count, found := cutLast(lines.Text())
		if n, err := strconv.Atoi(count); found && err == nil {
			counts[block] += n
		}
	}
	return counts
}

// cutLast cuts a line at its last space.
func cutLast(line string) (before, after string, found bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return line, "", false
	}
	return line[:i], line[i+1:], true
}
