package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/flight"
)

// recorded leaves the dumps of three ranks, of which the last may leave a call out.
func recorded(t *testing.T, dir string, skips bool) {
	tensors := []colligo.Tensor{colligo.Of(make([]float32, 4))}
	for rank := range 3 {
		r := flight.New(10, 2)
		op := flight.Op{PG: r.AddGroup("0", "default_pg", []int{0, 1, 2}), Seq: 1, OpID: 1, Name: "nccl:all_reduce", In: tensors, Out: tensors}
		if id := flight.ID(-1); !skips || rank != 2 {
			id = r.Add(&op, 0)
			r.Start(id)
			if !skips {
				r.Complete(id, -1)
			}
		}
		_, err := r.Dump(flight.DumpOptions{Entries: true, Frames: true}).WriteFile(filepath.Join(dir, "trace_rank_"), rank)
		require.NoError(t, err)
	}
}

func TestTrace(t *testing.T) {
	dir := t.TempDir()
	recorded(t, dir, false)
	page, timeline := filepath.Join(t.TempDir(), "page.html"), filepath.Join(t.TempDir(), "timeline.json")
	o := command(t, "trace", "-html", page, "-timeline", timeline, dir)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "all well: 3 ranks, 1 group: 1 collective and 0 messages agree\n")
	for _, file := range []string{page, timeline} {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Greater(t, info.Size(), int64(500))
	}
	require.Empty(t, o.stderr)

	recorded(t, dir, true)
	o = command(t, "trace", "-prefix", "trace_rank_", dir)
	require.Equal(t, 1, o.code)
	require.Regexp(t, `^all_reduce #1 \(float32 \[4\]\) of group 0 \(default_pg\): rank 2 has not entered; ranks 0, 1 wait\n`, o.stdout)
	require.Empty(t, o.stderr)
}

// TestTraceWithoutOne: a dump that cannot be read counts as missing.
func TestTraceWithoutOne(t *testing.T) {
	dir := t.TempDir()
	recorded(t, dir, false)
	broken := flight.Path(filepath.Join(dir, "trace_rank_"), 1)
	require.NoError(t, os.WriteFile(broken, []byte("cos\nsystem\n."), 0o600))
	o := command(t, "trace", dir)
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stdout, "rank 1 left no dump; nobody waits for it\n")
	require.Contains(t, o.stderr, broken+": read flight dump: pickle: byte 0: opcode GLOBAL")
	o = command(t, "trace", "-html", filepath.Join(dir, "absent", "page.html"), dir)
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "page.html")
}

func TestTraceMisuse(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	recorded(t, dir, false)
	for _, c := range []struct {
		says string
		args []string
	}{
		{"no folder named", nil}, {"not defined: -fast", []string{"-fast"}}, {"no dumps in", []string{empty}}, {"no dumps in", []string{"-prefix", "other_", dir}},
		{"no dumps in", []string{dir, "-prefix", "other_"}}, {"not defined: -fast", []string{dir, "-fast"}},
		{"two dumps of rank", []string{dir, dir}}, {"absent", []string{filepath.Join(dir, "absent")}},
	} {
		o := command(t, append([]string{"trace"}, c.args...)...)
		require.Equal(t, 2, o.code, c.says)
		require.Contains(t, o.stderr, c.says)
		require.Empty(t, o.stdout)
	}
	o := command(t, "trace", "-help")
	require.Zero(t, o.code)
	require.Contains(t, o.stdout, "-timeline")
}
