//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSignalEnds has the program read a dump that never comes: a signal ends what does not act on it.
func TestSignalEnds(t *testing.T) {
	dump := filepath.Join(t.TempDir(), "dump_0")
	require.NoError(t, syscall.Mkfifo(dump, 0o600))
	cmd := exec.Command(os.Args[0], "trace", filepath.Dir(dump))
	cmd.Env = append(os.Environ(), asProgram+"=1")
	require.NoError(t, cmd.Start())
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	w, err := os.OpenFile(dump, os.O_WRONLY, 0) // returns when the program reads
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.EqualError(t, cmd.Wait(), "signal: terminated")
}
