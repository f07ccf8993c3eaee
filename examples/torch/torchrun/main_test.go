package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
)

// findTorch returns a Python with PyTorch, and its version: the one that COLLIGO_TEST_PYTHON names, or else Debian's or the path's.
func findTorch(t *testing.T) (python, version string) {
	t.Helper()
	if testing.Short() {
		t.Skip("jobs under torchrun take long")
	}
	if runtime.GOOS == "windows" {
		t.Skip("run.sh needs bash")
	}
	for _, python := range []string{os.Getenv("COLLIGO_TEST_PYTHON"), "/usr/bin/python3", "python3"} {
		if python == "" {
			continue
		}
		if out, err := exec.Command(python, "-c", "import torch; print(torch.__version__)").Output(); err == nil {
			t.Logf("PyTorch %s", out)
			part := strings.Split(string(out), ".")
			return python, part[0] + "." + part[1]
		}
	}
	t.Skip("no Python with PyTorch here; Debian has it as python3-torch, and COLLIGO_TEST_PYTHON names another")
	return "", ""
}

// TestTorchrun starts jobs by their one command. In each a rank is killed, torchrun starts all ranks again, and they form again.
func TestTorchrun(t *testing.T) {
	python, version := findTorch(t)
	bin := filepath.Join(t.TempDir(), "rank")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, c := range []struct {
		what         string
		agent        bool // torchrun serves the store
		size, killed int
	}{{"go", false, 2, 1}, {"mixed", false, 3, 2}, {"mixed", true, 2, 1}} {
		t.Run(fmt.Sprintf("%s/agent=%v", c.what, c.agent), func(t *testing.T) {
			t.Parallel()
			env := append(os.Environ(), "PYTHON="+python, "BIN="+bin, "TORCH="+version, fmt.Sprint("RANKS=", c.size), fmt.Sprint("KILL=", c.killed))
			port := "RENDEZVOUS=" // of its own, for jobs run at once
			if c.agent {
				port = "AGENT="
			}
			env = append(env, port+freeport.Port(t, "127.0.0.1"))
			ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
			defer stop()
			cmd := exec.CommandContext(ctx, "./run.sh", c.what)
			cmd.Env, cmd.WaitDelay = env, 10*time.Second
			text, err := cmd.CombinedOutput()
			out := string(text)
			require.NoError(t, err, out)
			require.Equal(t, 1, strings.Count(out, fmt.Sprintf("rank %d is killed in step 10\n", c.killed)), out)
			for rank := range c.size {
				in := "in Go"
				if c.what == "mixed" && rank%2 == 0 {
					in = "PyTorch"
				}
				require.Contains(t, out, fmt.Sprintf("rank %d of %d is %s: attempt 1, last sum %d\n", rank, c.size, in, sum(c.size)))
			}
			require.NotContains(t, out, ": attempt 0, ")
		})
	}
}

// sum is the result of the last of 20 steps.
func sum(size int) (n int) {
	for rank := range size {
		n += rank + 1 + 19
	}
	return n
}
