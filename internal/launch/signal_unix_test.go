//go:build unix

package launch

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSignalIsForwarded sends one signal once all ranks are ready for it.
func TestSignalIsForwarded(t *testing.T) {
	signals := make(chan os.Signal)
	outputs, err := start(t, "graceful", 2, func(j *Job) {
		j.Signals = signals
		first, _ := j.Output(0)
		second, _ := j.Output(1)
		go func() {
			for _, w := range []io.Writer{first, second} {
				for w.(*Tail).String() == "" {
					time.Sleep(time.Millisecond)
				}
			}
			signals <- syscall.SIGINT
		}()
	})
	require.NoError(t, err)
	require.Equal(t, "ready\ngot interrupt\n", outputs[0].String())
	require.Equal(t, "ready\ngot interrupt\n", outputs[1].String())
}

func TestKilledAfterGrace(t *testing.T) {
	outputs, err := start(t, "stubborn", 2, func(j *Job) { j.Grace = 300 * time.Millisecond })
	require.EqualError(t, err, "rank 1: exit status 7")
	require.Equal(t, "deaf\n", outputs[0].String())
}

func TestSignalledRankHasShellCode(t *testing.T) {
	_, err := start(t, "sleep", 2, func(j *Job) {
		signals := make(chan os.Signal, 1)
		signals <- syscall.SIGTERM
		j.Signals = signals
	})
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, 128+15, f.Code)
}

// TestChildrenEnd expects a child of a failed program to be gone, though it never looked at a signal.
func TestChildrenEnd(t *testing.T) {
	outputs, err := start(t, "family", 1, nil)
	require.EqualError(t, err, "rank 0: exit status 3")
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(outputs[0].String(), "child ")))
	require.NoError(t, err, outputs[0].String())
	requireGone(t, pid)
}

// requireGone waits for a process to end. Init may be slow to collect it.
func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH || zombie(pid) }, time.Minute, 5*time.Millisecond)
}

// zombie reports whether a process has ended but nobody has collected it, where /proc tells.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
