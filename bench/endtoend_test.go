package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// records reads the lines of -json, and refuses fields that are not there or too many.
func recordsOf(t *testing.T, out string) []record {
	t.Helper()
	var all []record
	for line := range strings.Lines(out) {
		var keys map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &keys))
		require.Len(t, keys, 14)
		for _, k := range strings.Fields("collective device transport algo dtype op ranks bytes time_us min_us max_us algbw_gbps busbw_gbps wrong") {
			require.Contains(t, keys, k)
		}
		all = append(all, recordOf(t, line))
	}
	return all
}

func recordOf(t *testing.T, line string) record {
	t.Helper()
	var r record
	require.NoError(t, json.Unmarshal([]byte(line), &r))
	return r
}

// TestInProcess runs every collective on every element type and reduction with as many ranks as the sizes do not divide by.
func TestInProcess(t *testing.T) {
	for _, ranks := range []string{"1", "2", "3", "5"} {
		t.Run("ranks="+ranks, func(t *testing.T) {
			o := bench(nil, "all", "-transport", "inproc", "-ranks", ranks, "-json", "-n", "1", "-w", "0", "-b", "0", "-e",
				"2Ki", "-f", "2048", "-d", "all", "-o", "all")
			require.Zero(t, o.code, o.stderr)
			all := recordsOf(t, o.stdout)
			require.Greater(t, len(all), 400)
			for _, r := range all {
				require.Zero(t, *r.Wrong, "%+v", r)
				require.Equal(t, "inproc", r.Transport)
				require.Positive(t, r.TimeUS)
				require.True(t, r.MinUS <= r.TimeUS && r.TimeUS <= r.MaxUS, "%+v", r)
			}
		})
	}
}

// TestProcesses starts real processes, which are this test's program.
func TestProcesses(t *testing.T) {
	for _, args := range [][]string{{"-ranks", "3"}, {"-ranks", "4", "-transport", "tcp", "-r", "2"}, {"-ranks", "1"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			plot := filepath.Join(t.TempDir(), "p.svg")
			o := bench(nil, append(args, "all", "-json", "-n", "3", "-w", "1", "-e", "16Ki", "-f", "64", "-plot", plot)...)
			require.Zero(t, o.code, o.stderr)
			all := recordsOf(t, o.stdout)
			seen := map[string]int{}
			for _, r := range all {
				require.Zero(t, *r.Wrong, "%+v", r)
				seen[r.Collective]++
			}
			require.Equal(t, 3, seen["all_reduce"])
			require.Equal(t, 1, seen["barrier"])
			svg, err := os.ReadFile(plot)
			require.NoError(t, err)
			require.Contains(t, string(svg), "all_reduce float32 sum")
		})
	}
}

func TestTable(t *testing.T) {
	o := bench(nil, "all_reduce", "broadcast", "-transport", "inproc", "-ranks", "2", "-n", "2", "-w", "0", "-e", "32", "-algo", "ring", "-check=false")
	require.Zero(t, o.code, o.stderr)
	lines := strings.Split(strings.TrimRight(o.stdout, "\n"), "\n")
	require.Len(t, lines, 3+3+3+2, o.stdout)
	require.Equal(t, strings.Fields("# size count type redop root time algbw busbw #wrong min max algorithm"), strings.Fields(lines[1]))
	require.Equal(t, "# all_reduce", lines[3])
	row := strings.Fields(lines[4])
	require.Len(t, row, 12)
	require.Equal(t, []string{"8", "2", "float32", "sum", "-1"}, row[:5])
	require.Equal(t, []string{"N/A", "ring"}, []string{row[8], row[11]})
	var spread [3]float64 // the fastest batch's, the mean, the slowest's
	for i, at := range []int{9, 5, 10} {
		us, err := strconv.ParseFloat(row[at], 64)
		require.NoError(t, err)
		spread[i] = us
	}
	require.Greater(t, spread[0], 0.0)
	require.IsNonDecreasing(t, spread[:])
	row = strings.Fields(lines[8])
	require.Len(t, row, 12)
	require.Equal(t, []string{"32", "8", "float32", "none", "0"}, row[:5])
	require.NotEqual(t, "ring", row[11]) // broadcast has none, and keeps its table's choice
	require.Equal(t, "# wrong elements: not checked", lines[9])
	for _, l := range lines {
		require.Equal(t, strings.TrimRight(l, " "), l, "blanks at the end")
	}
}

// TestWrongElementsFail measures a collective that does nothing.
func TestWrongElementsFail(t *testing.T) {
	idle := collective{name: "idle", parts: true, coll: collectives()[3].coll, bus: whole, bind: func(b *binding) trial {
		t := bindAllGather(b)
		t.call = func(ctx context.Context) error {
			if b.group.Rank() > 0 {
				return nil
			}
			select { // rank 1 has ended with its error meanwhile, and rank 0 still prints the table
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(50 * time.Millisecond):
				return nil
			}
		}
		return t
	}}
	o, err := parse([]string{"all_gather", "-device", "cpu", "-transport", "inproc", "-ranks", "2", "-n", "1", "-b", "64", "-e", "64", "-json"})
	require.NoError(t, err)
	o.collectives = []collective{idle}
	var out strings.Builder
	err = runInProcess(o, process{stdout: &out, stderr: io.Discard, open: noDriver})
	require.ErrorContains(t, err, "has 16 wrong elements")
	require.EqualValues(t, 32, *recordsOf(t, out.String())[0].Wrong)
}

// TestCallFails expects the first error of any rank, and no rank to wait for the others.
func TestCallFails(t *testing.T) {
	bad := collective{name: "bad", coll: barrier, bus: whole, bind: func(b *binding) trial {
		t := bindBarrier(b)
		if b.group.Rank() == 1 {
			t.call = func(context.Context) error { return errors.New("planted") }
		}
		return t
	}}
	o, err := parse([]string{"barrier", "-device", "cpu", "-transport", "inproc", "-ranks", "3", "-n", "2", "-timeout", "1m"})
	require.NoError(t, err)
	o.collectives = []collective{bad}
	began := time.Now()
	require.ErrorContains(t, runInProcess(o, process{stdout: io.Discard, stderr: io.Discard, open: noDriver}), "planted")
	require.Less(t, time.Since(began), time.Minute/2, "a rank waits for the others")
}

func TestRankDies(t *testing.T) {
	o := bench([]string{failing + "=1"}, "all_reduce", "-ranks", "3", "-e", "8")
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "rank 1: exit status 7")
	require.Contains(t, o.stderr, "    said before the end")
}

func TestProgress(t *testing.T) {
	var b strings.Builder
	p := &progress{to: &b, total: 9}
	p.next("all_reduce float32 8")
	p.clear()
	require.Equal(t, "\r\x1b[K1/9 all_reduce float32 8\r\x1b[K", b.String())
	require.False(t, terminal(&b))
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	require.False(t, terminal(f))
	require.NoError(t, f.Close())
}

func TestPlotIsXML(t *testing.T) {
	var all []record
	for i := range 30 {
		all = append(all, record{Collective: "all_reduce", DType: colligo.DTypes()[i%9].String(), Op: "none", Ranks: 4, Bytes: 8 << i, BusBW: float64(i) / 7})
	}
	all = append(all, record{Collective: "barrier", DType: "a<&>b", Op: "none"})
	var b strings.Builder
	require.NoError(t, drawPlot(&b, all))
	require.Equal(t, 30, strings.Count(b.String(), "<circle"))
	require.Equal(t, 9, strings.Count(b.String(), "<polyline"))
	dec := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		_, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.ErrorContains(t, drawPlot(&b, all[30:]), "nothing to draw")
}

func TestNiceStep(t *testing.T) {
	for top, want := range map[float64]float64{0: 1, 5.2: 1, 12: 2, 26: 5, 0.03: 0.005, 400: 100, 1000: 200} {
		require.InEpsilon(t, want, niceStep(top), 1e-9, "top %v", top)
	}
}
