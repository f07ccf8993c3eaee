//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAgain measures programs whose new version is slow at first, and holds that what it is later counts.
func TestAgain(t *testing.T) {
	dir := t.TempDir()
	for version, script := range map[string]string{
		"old": "echo 'BenchmarkX-2 1 10 ns/op'; echo 'BenchmarkOld-2 1 10 ns/op'",
		"new": "echo \"BenchmarkX-2 1 $([ \"$4\" = . ] && echo 20 || echo 9) ns/op\"; echo 'BenchmarkNew-2 1 10 ns/op'",
	} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, version, "pg.test"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	args := []string{"-built", dir, "-packages", "pg", "-collectives", "", "-turns", "2", "-again", "3"}
	var out, log bytes.Buffer
	require.Equal(t, 0, run(args, &out, &log), log.String())
	require.Equal(t, "medians  pairs  control      turns    benchmark\n0.900    0.900  1.000 1.000  3        pg X\n0 of 1 are beyond 1.03\n", out.String())
	require.Contains(t, log.String(), "2.000 (pairs 2.000): pg X\nbeyond 1.03: 1; measuring again with 3 turns")

	out.Reset()
	require.Equal(t, 1, run(append(args, "-again", "0"), &out, &log), log.String())
	require.Contains(t, out.String(), "1 of 1 are beyond 1.03")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "old", "pg.test"), []byte("#!/bin/sh\necho broken >&2\nexit 3\n"), 0o755))
	log.Reset()
	require.Equal(t, 1, run(args, &out, &log))
	require.Contains(t, log.String(), "exit status 3: broken")
}
