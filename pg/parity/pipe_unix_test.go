//go:build unix

package parity

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg"
)

// TestDumpPipe writes to the pipe of each rank, which answers with a dump.
func TestDumpPipe(t *testing.T) {
	o := options{noSim: true, files: func(c *pg.Config, dir string) {
		c.Watchdog.Monitor, c.Watchdog.CoordCheck = pg.On, 10e6
		c.Recorder.DumpFile, c.Recorder.DumpPipe = filepath.Join(dir, "trace_"), filepath.Join(dir, "trace_")
	}}
	eachWith(t, 2, o, func(r *rank) {
		r.summed()
		r.summed()
		require.NoError(r.t, r.WaitPending(r.ctx))
		pipe := filepath.Join(r.dir, fmt.Sprintf("trace_%d.pipe", r.Rank()))
		require.NoError(r.t, os.WriteFile(pipe, []byte("1\n"), 0o600))
		require.Len(r.t, recent(dumped(r.t, r.dir, r.Rank())), 2)
		require.NoError(r.t, r.Barrier(r.ctx), "the group goes on")
	})
}
