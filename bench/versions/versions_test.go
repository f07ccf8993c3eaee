package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-old", "x", "-packages", "", "-collectives", "all_gather", "-ranks", "4", "-extra", "-device cuda -threads", "-turns", "41"}, io.Discard)
	require.NoError(t, err)
	require.Empty(t, o.packages)
	require.Equal(t, []string{"all_gather"}, o.collectives)
	require.Equal(t, []string{"4"}, o.ranks)
	require.Equal(t, []string{"shm", "tcp"}, o.transports, "the default")
	require.Equal(t, []string{"-device", "cuda", "-threads"}, o.extra)
	require.Equal(t, 41, o.turns)
	for message, args := range map[string][]string{
		"-old must name a revision":        {},
		"unexpected argument \"y\"":        {"-old", "x", "y"},
		"-turns must be at least 1":        {"-old", "x", "-turns", "0"},
		"-old, -new and -build do not go ": {"-old", "x", "-built", "y"},
	} {
		_, err := parse(args, io.Discard)
		require.ErrorContains(t, err, message)
	}
	require.Equal(t, 2, run(nil, io.Discard, io.Discard))
	require.Equal(t, 0, run([]string{"-h"}, io.Discard, io.Discard))
}

// TestRead reads times from what go test and bench print.
func TestRead(t *testing.T) {
	u := goUnit("pg/flight", [2]string{}, ".", "1x")
	require.Equal(t, map[string]float64{"pg/flight Record/sum": 12.5, "pg/flight Dump": 1e6}, u.read(
		"goos: linux\nBenchmarkRecord/sum-2   \t 1000\t 12.5 ns/op\t 3 B/op\nBenchmarkDump 1 1000000 ns/op\nBenchmarkBroken-2 --- FAIL\nok\n"))
	require.Equal(t, []string{"-test.run", "^$", "-test.bench", "^BenchmarkRecord$/^a\\.b$", "-test.benchtime", "1x"}, u.only("pg/flight Record/a.b").args)

	o := &options{n: "7", extra: []string{"-device", "cpu"}}
	u = o.benchUnit([2]string{}, []string{"all_gather", "reduce"}, "4", "shm", "8-2Mi*64")
	require.Equal(t, strings.Fields("all_gather reduce -ranks 4 -transport shm -check=false -json -b 8 -e 2Mi -f 64 -n 7 -device cpu"), u.args)
	times := u.read("{\"collective\":\"all_gather\",\"bytes\":512,\"time_us\":553.5}\nno JSON\n{\"collective\":\"reduce\",\"bytes\":8,\"time_us\":1}\n")
	require.Equal(t, map[string]float64{"all_gather 512, 4 ranks, shm": 553.5, "reduce 8, 4 ranks, shm": 1}, times)
	u = u.only("all_gather 512, 4 ranks, shm")
	require.Equal(t, strings.Fields("all_gather -ranks 4 -transport shm -check=false -json -b 512 -e 512 -f 2 -n 7 -device cpu"), u.args)
}

// TestTable holds what counts as slower, and that times which are measured again replace the earlier ones.
func TestTable(t *testing.T) {
	u := &unit{}
	u.only = func(string) *unit { return u }
	rows := map[string]*row{
		"slow":             {unit: u, times: [3][]float64{{10, 11, 12}, {12, 13, 14}, {11, 11, 11}}},
		"another state":    {unit: u, times: [3][]float64{{10, 10, 20, 20}, {10, 20, 20, 20}}}, // the median is 1.33, that of the pairs is 1
		"within the limit": {unit: u, times: [3][]float64{{100, 100}, {103, 103}}},
		"faster":           {unit: u, times: [3][]float64{{10}, {5}}},
	}
	table := &table{limit: 1.03, rows: rows}
	require.Len(t, table.beyond(io.Discard), 1)
	var b bytes.Buffer
	require.Equal(t, 1, table.print(&b))
	require.Equal(t, `medians  pairs  control      turns          benchmark
1.333    1.000               4              another state
1.182    1.182  1.000 1.000  3      slower  slow
1.030    1.030               2              within the limit
0.500    0.500               1              faster
1 of 4 are beyond 1.03
`, b.String())
	require.Equal(t, 2.5, median([]float64{4, 1, 2, 3}))
}

// TestBuild compares a revision of a small repository with its working tree.
func TestBuild(t *testing.T) {
	top := t.TempDir()
	t.Chdir(top)
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	bench := func(name string) {
		write("pg/pg_test.go", "package pg\n\nimport \"testing\"\n\nfunc Benchmark"+name+"(b *testing.B) {\n\tfor b.Loop() {\n\t}\n}\n")
	}
	write("go.mod", "module m\n\ngo 1.25\n")
	bench("Old")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@x.example", "commit", "-q", "-m", "x"}} {
		_, err := output(top, "git", args...)
		require.NoError(t, err)
	}
	args := []string{"-old", "HEAD", "-packages", "pg", "-collectives", "", "-turns", "1", "-limit", "1e9"}
	var out, log bytes.Buffer
	require.Equal(t, 0, run(args, &out, &log), log.String())
	require.Contains(t, out.String(), "pg Old")

	bench("New") // of the working tree alone
	require.Equal(t, 1, run(args, &out, &log))
	require.Contains(t, log.String(), "the two versions have no benchmark in common")
	trees, err := output(top, "git", "worktree", "list")
	require.NoError(t, err)
	require.NotContains(t, trees, "\n", "work trees are removed")

	log.Reset()
	require.Equal(t, 1, run([]string{"-old", "nothing", "-packages", "pg"}, &out, &log))
	require.Contains(t, log.String(), "nothing")
}
