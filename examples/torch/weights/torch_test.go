package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// findTorch returns a Python with PyTorch: the one that COLLIGO_TEST_PYTHON names, or else Debian's or the path's.
func findTorch(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("jobs with ranks of PyTorch take long")
	}
	for _, python := range []string{os.Getenv("COLLIGO_TEST_PYTHON"), "/usr/bin/python3", "python3"} {
		if python == "" {
			continue
		}
		if out, err := exec.Command(python, "-c", "import torch, numpy; print(torch.__version__)").Output(); err == nil {
			t.Logf("PyTorch %s", out)
			return python
		}
	}
	t.Skip("no Python with PyTorch here; Debian has it as python3-torch, and COLLIGO_TEST_PYTHON names another")
	return ""
}

// TestTorch starts the job by its one command. PyTorch reads the file back that a rank in Go has written, and finds its model in it.
func TestTorch(t *testing.T) {
	python := findTorch(t)
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	defer stop()
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.WaitDelay = 10 * time.Second
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	t.Setenv("WEIGHTS_TEST_LAUNCH", "1")
	out := run(self, "-python", python, "-ranks", "3", "-mib", "20", "-rounds", "2", "-piece", "1000000", "-out", dir)
	require.Contains(t, out, "round 1: all ranks have received the weights right")
	require.Contains(t, out, "rank 1 is in Go: round 1, ")
	require.Contains(t, out, "extra_bf16 ")
	require.Contains(t, out, "rank 2 is in Go: round 1, ")
	first, err := os.ReadFile(filepath.Join(dir, "rank1.safetensors"))
	require.NoError(t, err)
	second, err := os.ReadFile(filepath.Join(dir, "rank2.safetensors"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, second))
	require.Contains(t, run(python, "send.py", "check", filepath.Join(dir, "rank1.safetensors"), "20", "1"), "equal: ")
}
