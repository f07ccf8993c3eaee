package pg_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/pgtest"
)

func dumping(prefix string, more func(rank int, c *pg.Config)) pgtest.Options {
	return pgtest.Options{Config: func(rank int, c *pg.Config) {
		c.Timeout = 3 * time.Second
		c.Recorder.DumpOnError, c.Recorder.DumpFile = pg.On, prefix
		if more != nil {
			more(rank, c)
		}
	}}
}

// TestDumpOnTimeout has all ranks, the late one too, write what they have recorded; the call that stood still is not complete.
func TestDumpOnTimeout(t *testing.T) {
	dir := t.TempDir()
	pgtest.RunWith(t, 3, dumping(filepath.Join(dir, "new", "trace_"), nil), func(t *testing.T, g *pg.Group) {
		require.NoError(t, g.AllReduce(t.Context(), zeros[float32](4), colligo.Sum))
		if g.Rank() == 2 {
			time.Sleep(time.Minute)
			return
		}
		require.ErrorIs(t, g.Broadcast(t.Context(), zeros[int64](3, 5), 2), colligo.ErrTimeout)
	})
	files, err := flight.Files(filepath.Join(dir, "new"), "")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for rank, file := range files {
		d, err := flight.ReadFile(file)
		require.NoError(t, err)
		last := d.Entries[len(d.Entries)-1]
		require.Equal(t, []int{2}, d.Failures["0"].Ranks)
		require.Contains(t, d.Failures["0"].Text, "rank 2 has not entered")
		require.GreaterOrEqual(t, d.Failures["0"].Time, last.Created+int64(2*time.Second), "when it gave up")
		require.GreaterOrEqual(t, d.Taken, d.Failures["0"].Time)
		if rank == 2 {
			require.Equal(t, "nccl:all_reduce", last.Name)
			require.Equal(t, flight.Completed, last.State)
			continue
		}
		require.Equal(t, "nccl:broadcast", last.Name)
		require.NotEqual(t, flight.Completed, last.State)
		require.Equal(t, [][]int64{{3, 5}}, last.InSizes)
		require.NotEmpty(t, last.Frames)
		require.Contains(t, last.Frames[0].File+last.Frames[len(last.Frames)-1].File, "dump_test.go", "%v", last.Frames)
	}
}

// TestDumpTellsWhyGroupsFailed fails one of two groups. The rank to blame is named by its number in the default group.
func TestDumpTellsWhyGroupsFailed(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Timeout = 3 * time.Second }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		some, err := g.NewGroup(t.Context(), []int{1, 2})
		require.NoError(t, err)
		require.Nil(t, g.Dump(flight.DumpOptions{}).Failures)
		if g.Rank() == 1 {
			require.ErrorIs(t, some.Barrier(t.Context()), colligo.ErrTimeout)
		}
		time.Sleep(time.Minute)
		failures := g.Dump(flight.DumpOptions{}).Failures
		if g.Rank() == 0 {
			require.Nil(t, failures)
			return
		}
		require.Len(t, failures, 1)
		require.Equal(t, []int{2}, failures[some.Name()].Ranks)
	})
}

// TestDumpTellsWhen fails groups for several reasons. Abort is one only if that was asked for.
func TestDumpTellsWhen(t *testing.T) {
	for name, c := range map[string]struct {
		on, abort pg.Toggle
		end       func(g *pg.Group)
		want      int
	}{
		"error":            {pg.On, pg.Off, func(g *pg.Group) { pg.FailForTest(g, errors.New("enough")) }, 2},
		"error, off":       {pg.Off, pg.Off, func(g *pg.Group) { pg.FailForTest(g, errors.New("enough")) }, 0},
		"abort":            {pg.On, pg.Off, func(g *pg.Group) { g.Abort(nil) }, 0},
		"abort, asked for": {pg.Off, pg.On, func(g *pg.Group) { g.Abort(nil) }, 2},
		"close":            {pg.On, pg.On, func(g *pg.Group) {}, 0},
		"asked by a peer":  {pg.Off, pg.Off, func(g *pg.Group) { require.NoError(t, g.RequestDumps(context.Background())) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := dumping(dir+"/", func(_ int, w *pg.Config) { w.Recorder.DumpOnError, w.Recorder.DumpOnAbort = c.on, c.abort })
			pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
				time.Sleep(time.Second) // until both have formed
				if g.Rank() == 0 {
					c.end(g)
				}
				time.Sleep(time.Second)
			})
			files, err := flight.Files(dir, "")
			require.NoError(t, err)
			require.Len(t, files, c.want)
		})
	}
}

// TestDumpFails has no place to write to; the group's error is the same, and nothing is left.
func TestDumpFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	pgtest.RunWith(t, 2, dumping(file+"/below/trace_", nil), func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
			return
		}
		require.ErrorContains(t, g.Barrier(t.Context()), "rank 1 has not entered after 3s")
		_, err := g.DumpFile(t.Context())
		require.ErrorContains(t, err, "pg: group 0: dump of rank 0: ")
	})
	none := dumping(file+"_", func(_ int, c *pg.Config) { c.Recorder.Entries = -1 })
	pgtest.RunWith(t, 2, none, func(t *testing.T, g *pg.Group) {
		_, err := g.DumpFile(t.Context())
		require.ErrorContains(t, err, "there is no flight recorder")
	})
}

// TestDumpOfSubgroup names files by the rank in the default group.
func TestDumpOfSubgroup(t *testing.T) {
	dir := t.TempDir()
	pgtest.RunWith(t, 3, dumping(dir+"/trace_", nil), func(t *testing.T, g *pg.Group) {
		n, err := g.NewGroup(t.Context(), []int{1, 2})
		require.NoError(t, err)
		if g.Rank() == 0 {
			return
		}
		path, err := n.DumpFile(t.Context())
		require.NoError(t, err)
		require.Equal(t, flight.Path(dir+"/trace_", g.Rank()), path)
		require.NoError(t, n.Close())
	})
}
