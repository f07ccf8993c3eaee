package launch

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// start runs a program of this package's tests, and returns its ranks' outputs.
func start(t *testing.T, name string, ranks int, change func(*Job)) (outputs []*Tail, err error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	for range ranks {
		outputs = append(outputs, &Tail{Limit: 1 << 20})
	}
	j := Job{Program: self, Ranks: ranks, Env: []string{mode + "=" + name}, Grace: time.Minute, Settle: 100 * time.Millisecond,
		Output: func(rank int) (stdout, stderr io.Writer) { return outputs[rank], outputs[rank] }}
	if change != nil {
		change(&j)
	}
	return outputs, j.Run(t.Context())
}

func TestEnvironment(t *testing.T) {
	outputs, err := start(t, "environment", 3, func(j *Job) { j.Env = append(j.Env, "RANK=9", "OMP_NUM_THREADS=4") })
	require.NoError(t, err)
	lines := strings.Split(outputs[2].String(), "\n")
	for _, want := range []string{"RANK=2", "LOCAL_RANK=2", "ROLE_RANK=2", "GROUP_RANK=0", "WORLD_SIZE=3",
		"LOCAL_WORLD_SIZE=3", "ROLE_WORLD_SIZE=3", "GROUP_WORLD_SIZE=1", "ROLE_NAME=default", "MASTER_ADDR=127.0.0.1",
		"TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_MAX_RESTARTS=0", "TORCHELASTIC_USE_AGENT_STORE=True",
		"OMP_NUM_THREADS=4"} {
		require.Contains(t, lines, want)
	}
	require.NotContains(t, lines, "RANK=9")
	starting := func(name string) string {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, name) })
		require.GreaterOrEqual(t, i, 0, name)
		return lines[i]
	}
	require.Contains(t, outputs[0].String(), starting("MASTER_PORT="))
	require.Contains(t, outputs[0].String(), starting("TORCHELASTIC_RUN_ID="))
}

func TestStore(t *testing.T) {
	outputs, err := start(t, "meet", 3, nil)
	require.NoError(t, err)
	for _, o := range outputs {
		require.Equal(t, "met\n", o.String())
	}
}

func TestFirstFailureEndsAll(t *testing.T) {
	began := time.Now()
	outputs, err := start(t, "fail", 3, nil)
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, Failure{Rank: 1, Code: 7, Err: f.Err}, *f)
	require.EqualError(t, err, "rank 1: exit status 7")
	require.Equal(t, "giving up\n", outputs[1].String())
	require.Less(t, time.Since(began), time.Minute/2)
}

// TestLastWords has a rank end by itself when it hears that another has failed, and say so.
func TestLastWords(t *testing.T) {
	began := time.Now()
	outputs, err := start(t, "heed", 2, func(j *Job) { j.Settle = time.Minute })
	require.EqualError(t, err, "rank 1: exit status 7")
	require.Equal(t, "rank 1 is gone\n", outputs[0].String())
	require.Less(t, time.Since(began), time.Minute/2, "nothing is waited for when all have ended")
}

func TestContextEndsAll(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	planted := errors.New("planted")
	time.AfterFunc(50*time.Millisecond, func() { cancel(planted) })
	self, err := os.Executable()
	require.NoError(t, err)
	j := Job{Program: self, Ranks: 2, Env: []string{mode + "=sleep"}}
	require.ErrorIs(t, j.Run(ctx), planted)
}

func TestNoSuchProgram(t *testing.T) {
	j := Job{Program: filepath.Join(t.TempDir(), "missing"), Ranks: 2}
	require.ErrorContains(t, j.Run(t.Context()), "start rank 0")
	j.Ranks = 0
	require.ErrorContains(t, j.Run(t.Context()), "0 ranks")
}

func TestLines(t *testing.T) {
	var b strings.Builder
	l := NewLines(&b)
	one, two := l.Stream("[0] "), l.Stream("[1] ")
	for _, w := range []struct {
		s    *Stream
		text string
	}{{one, "a"}, {two, "x\ny\nz"}, {one, "b\n"}, {one, "\n"}, {two, "\n"}, {one, "end"}} {
		n, err := w.s.Write([]byte(w.text))
		require.NoError(t, err)
		require.Equal(t, len(w.text), n)
	}
	require.NoError(t, one.Flush())
	require.NoError(t, two.Flush())
	require.Equal(t, "[1] x\n[1] y\n[0] ab\n[0] \n[1] z\n[0] end\n", b.String())
}

// TestLongLine bounds what is kept of a line that does not end.
func TestLongLine(t *testing.T) {
	var b strings.Builder
	s := NewLines(&b).Stream("> ")
	for range 3 {
		_, err := s.Write([]byte(strings.Repeat("x", longestLine-1)))
		require.NoError(t, err)
	}
	require.Equal(t, 2*(longestLine-1)+3, b.Len())
}

func TestTail(t *testing.T) {
	tail := &Tail{Limit: 5}
	for _, s := range []string{"abc", "def", "", "g"} {
		n, err := tail.Write([]byte(s))
		require.NoError(t, err)
		require.Equal(t, len(s), n)
	}
	require.Equal(t, "cdefg", tail.String())
}
