package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/flight"
)

// TestTraceMemory draws two dumps of 1.6 MB whose operations share one text of a MiB. Copies of it would be 10 GB.
func TestTraceMemory(t *testing.T) {
	const each, most = 2000, 256 << 20
	dir := t.TempDir()
	long := "nccl:" + strings.Repeat("x", 1<<20)
	one := []string{long}
	for rank := range 2 {
		d := &flight.Dump{Version: "2.10", Groups: map[string]flight.Group{long: {Name: long, Desc: long, Ranks: []int{0, 1}}},
			Failures: map[string]flight.Failure{long: {Text: long, Ranks: []int{1}}}}
		for i := range each {
			d.Entries = append(d.Entries, flight.Entry{ID: int64(i), Group: long, Desc: long, Name: long, Seq: uint64(1 + i%2*i), InTypes: one, OutTypes: one,
				State: flight.Started, Created: int64(i + 1), Frames: []flight.Frame{{Name: long, File: long, Line: 1}}})
		}
		path, err := d.WriteFile(filepath.Join(dir, "trace_rank_"), rank)
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(1700<<10))
	}
	page, timeline := filepath.Join(t.TempDir(), "page.html"), filepath.Join(t.TempDir(), "timeline.json")
	cmd := exec.Command(os.Args[0], "trace", "-html", page, "-timeline", timeline, dir)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.Output()
	require.Equal(t, 1, cmd.ProcessState.ExitCode(), "%v: %s", err, out)
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	t.Logf("at most %d MiB, report of %d bytes", peak>>20, len(out))
	require.Less(t, peak, int64(most))
	require.Less(t, len(out), 64<<10)
	for _, file := range []string{page, timeline} {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(32<<20))
		require.Greater(t, info.Size(), int64(each))
	}
}
