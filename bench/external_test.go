package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// comparison runs a comparison on two ranks and returns its records.
func comparison(t *testing.T, args ...string) []record {
	t.Helper()
	o := bench(nil, append(args, "all", "-ranks", "2", "-json", "-n", "4", "-w", "1", "-turns", "2", "-b", "24", "-e", "6Ki", "-f", "256")...)
	require.Zero(t, o.code, o.stderr)
	var all []record
	for line := range strings.Lines(o.stdout) {
		all = append(all, recordOf(t, line))
	}
	return all
}

// requireCompared expects both libraries' times of every collective but some.
func requireCompared(t *testing.T, all []record, peer string, but ...string) {
	t.Helper()
	require.Len(t, all, 9*2+1)
	for _, r := range all {
		require.Zero(t, *r.Wrong, "%+v", r)
		if len(but) > 0 && r.Collective == but[0] && r.PeerTimeUS == nil {
			continue
		}
		require.Contains(t, r.Peer, peer)
		require.Positive(t, *r.PeerTimeUS)
		require.True(t, *r.PeerMinUS <= *r.PeerTimeUS && *r.PeerTimeUS <= *r.PeerMaxUS, "%+v", r)
		require.InEpsilon(t, *r.PeerTimeUS/r.TimeUS, *r.Ratio, 1e-9)
	}
}

func TestCompareOpenMPI(t *testing.T) {
	for _, program := range []string{"mpicc", "mpirun"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no Open MPI here: %v", err)
		}
	}
	for _, medium := range []string{"shm", "tcp"} {
		t.Run(medium, func(t *testing.T) {
			requireCompared(t, comparison(t, "-compare", "openmpi", "-transport", medium), "Open MPI")
		})
	}
}

func TestCompareGloo(t *testing.T) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import torch.distributed as d; assert d.is_gloo_available()").Run() == nil {
			requireCompared(t, comparison(t, "-compare", "gloo", "-transport", "tcp", "-python", python), "Gloo", "reduce_scatter")
			return
		}
	}
	t.Skip("no torch.distributed with Gloo here")
}

// TestCompareFails expects the output of a program that does not do what is asked.
func TestCompareFails(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join(dir, "fake")
	require.NoError(t, os.WriteFile(fake, []byte("#!/bin/sh\necho this is no Python\nexit 3\n"), 0o700))
	o := bench(nil, "all_reduce", "-ranks", "2", "-compare", "gloo", "-python", fake)
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "-compare gloo: a process ended early: exit status 3")
	require.Contains(t, o.stderr, "this is no Python")
	o = bench(nil, "all_reduce", "-ranks", "2", "-compare", "openmpi", "-mpicc", filepath.Join(dir, "none"))
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "no such file or directory")
}

func TestOpenMPIMedium(t *testing.T) {
	require.Equal(t, "self,vader", openMPIMedium("mpirun (Open MPI) 4.1.4\n", "shm"))
	require.Equal(t, "self,sm", openMPIMedium("mpirun (Open MPI) 5.0.6\n", "shm"))
	require.Equal(t, "self,sm", openMPIMedium("Open MPI v5.0.6", "shm"))
	require.Equal(t, "self,tcp", openMPIMedium("Open MPI v5.0.6", "tcp"))
}

// TestMarkdown brings two runs together.
func TestMarkdown(t *testing.T) {
	o, err := parse([]string{"all_reduce", "-compare", "openmpi", "-ranks", "2,4"})
	require.NoError(t, err)
	require.Equal(t, rankCounts{2, 4}, o.rankCounts)
	time, least, most, ratio, busbw := 50.0, 40.0, 70.0, 1.25, 2.0
	g := &gathering{out: &bytes.Buffer{}}
	for _, ranks := range []int{2, 4} {
		r := record{Collective: "all_reduce", Device: "cpu", Transport: "shm", Algo: "ring", DType: "float32", Op: "sum", Ranks: ranks, Bytes: 4 << 10,
			TimeUS: 40, MinUS: 38, MaxUS: 44, BusBW: 3, Peer: "Open MPI v4", PeerTimeUS: &time, PeerMinUS: &least, PeerMaxUS: &most, PeerBusBW: &busbw, Ratio: &ratio}
		line, err := json.Marshal(r)
		require.NoError(t, err)
		for _, part := range [][]byte{line[:9], line[9:], []byte("\n")} {
			_, err = g.Write(part)
			require.NoError(t, err)
		}
	}
	require.NoError(t, g.err)
	text := markdown(o, g.records, commandLine([]string{"all_reduce", "-ranks", "2,4", "-device", "cpu", "-json"}))
	require.Contains(t, text, "\n    go run ./bench all_reduce -ranks 2,4\n")
	require.Contains(t, text, "| time(openmpi) / time(colligo) | 4Ki |\n|---|---|\n| all_reduce, 2 ranks | 1.25 |\n| all_reduce, 4 ranks | 1.25 |\n")
	require.Contains(t, text, "\n| all_reduce | 4 | 4Ki | ring | 40.0 | 38.0-44.0 | 50.0 | 40.0-70.0 | 1.25 |\n")
	var svg bytes.Buffer
	require.NoError(t, drawPlot(&svg, g.records))
	require.Contains(t, svg.String(), "all_reduce float32 sum, 4 ranks; dotted: Open MPI v4")
	require.Equal(t, 8, strings.Count(svg.String(), "<circle"), "two libraries, two runs, two panels")
	require.Contains(t, svg.String(), "time (µs)")
}
