package parity

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// dropGroup ends the process of a rank that neither closes its group nor waits for the other.
func dropGroup(t *testing.T, g *pg.Group) {
	require.NoError(t, g.AllReduce(t.Context(), colligo.Of(make([]float32, 100)), colligo.Sum))
	os.Exit(0)
}

// TestDestructBeforeTerminatePG has processes end with a group that nobody closes: nothing holds them, and nothing is wrong.
func TestDestructBeforeTerminatePG(t *testing.T) {
	for rank, p := range processes(t, 2, "drop", t.TempDir(), "TORCH_NCCL_ASYNC_ERROR_HANDLING=0") {
		require.Zero(t, p.code, "rank %d:\n%s", rank, p.out)
	}
	each(t, 2, func(r *rank) { r.summed() }) // and groups that the harness closes
}

// leaveAlone does nothing with a group for a while whose ranks have met in a file.
func leaveAlone(t *testing.T, g *pg.Group) {
	require.Equal(t, []int{*childRank, 2}, []int{g.Rank(), g.Size()})
	time.Sleep(2 * time.Second) // for many looks into the file
	require.NoError(t, errors.Join(g.Err(), g.Barrier(t.Context()), g.Close()))
}

// TestFileStoreCheck has the variables of the suite that it follows, and besides those with which all that there is watches the group.
func TestFileStoreCheck(t *testing.T) {
	beside(t)
	for name, env := range map[string][]string{
		"unwatched": {"TORCH_NCCL_ASYNC_ERROR_HANDLING=0", "TORCH_NCCL_ENABLE_MONITORING=0", "TORCH_NCCL_DUMP_ON_TIMEOUT=1",
			"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=0"},
		"watched": {"TORCH_NCCL_ENABLE_MONITORING=1", "TORCH_NCCL_DUMP_ON_TIMEOUT=1", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=60",
			"TORCH_NCCL_COORD_CHECK_MILSEC=10", "TORCH_NCCL_PROPAGATE_ERROR=1"},
	} {
		t.Run(name, func(t *testing.T) {
			beside(t)
			dir := t.TempDir()
			for rank, p := range processes(t, 2, "file store", dir, append(env, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE="+filepath.Join(dir, "trace_"))...) {
				require.Zero(t, p.code, "rank %d:\n%s", rank, p.out)
			}
			dumps, err := filepath.Glob(filepath.Join(dir, "trace_*"))
			require.NoError(t, err)
			require.Empty(t, dumps, "nothing was late")
		})
	}
}

// alone has rank 0 call a second all-reduce, of which its watchdog ends the process.
func alone(t *testing.T, g *pg.Group, other func()) {
	x := colligo.Of(make([]float32, 12), 3, 4)
	require.NoError(t, g.AllReduce(t.Context(), x, colligo.Sum))
	if g.Rank() != 0 {
		other()
		return
	}
	require.Error(t, g.AllReduce(t.Context(), x, colligo.Sum))
	time.Sleep(time.Minute)
	t.Error("the watchdog has not ended the process")
}

// lateDumps has rank 1 wait without an end for rank 0 to be gone.
func lateDumps(t *testing.T, g *pg.Group) {
	alone(t, g, func() {
		for g.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		os.Exit(0)
	})
}

// stuckDumps has rank 1 hang in something of its own until its watchdog ends it.
func stuckDumps(t *testing.T, g *pg.Group) { alone(t, g, func() { time.Sleep(time.Minute) }) }

// errorsDump has rank 1 exit with an error of its own.
func errorsDump(t *testing.T, g *pg.Group) {
	alone(t, g, func() {
		for !strings.Contains(pg.RankStandings(g, true)[0].Does, "is in all_reduce #2") { // rank 0 waits
			time.Sleep(10 * time.Millisecond)
		}
		os.Exit(1)
	})
}

// dumping runs a program whose watchdogs write dumps and end their processes.
func dumping(t *testing.T, program string) (dir string, all []process) {
	dir = t.TempDir()
	return dir, processes(t, 2, program, dir, "COLLIGO_ASYNC_ERROR_HANDLING=1", "TORCH_NCCL_TRACE_BUFFER_SIZE=1000",
		"TORCH_NCCL_DUMP_ON_TIMEOUT=1", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE="+filepath.Join(dir, "trace_"))
}

// TestTimeoutDumps has the process whose operation is late write what it remembers, and end.
func TestTimeoutDumps(t *testing.T) {
	beside(t)
	dir, all := dumping(t, "timeout dumps")
	require.Equal(t, pg.ExitCode, all[0].code, "%s", all[0].out)
	d := recent(dumped(t, dir, 0))
	require.Len(t, d, 2)
	require.Equal(t, []uint64{1, 2}, []uint64{d[0].Seq, d[1].Seq})
	require.Equal(t, flight.Completed, d[0].State)
	require.Equal(t, flight.Started, d[1].State)
	lateOn(t, func(r *rank) { <-r.failed() }, func(t *testing.T, dir string) {
		all := recent(dumped(t, dir, 0))
		require.Len(t, all, 2)
		require.Equal(t, flight.Completed, all[0].State)
		require.NotEqual(t, flight.Completed, all[1].State)
		require.Equal(t, all[0].Seq+1, all[1].Seq)
	})
}

// TestTimeoutDumpsOnStuckRanks has the process that hangs elsewhere write its dump too.
func TestTimeoutDumpsOnStuckRanks(t *testing.T) {
	beside(t)
	dir, all := dumping(t, "stuck dumps")
	require.Equal(t, pg.ExitCode, all[0].code, "%s", all[0].out)
	require.Equal(t, pg.ExitCode, all[1].code, "%s", all[1].out)
	require.Len(t, recent(dumped(t, dir, 0)), 2)
	d := recent(dumped(t, dir, 1))
	require.Len(t, d, 1)
	require.Equal(t, uint64(1), d[0].Seq)
	require.Equal(t, flight.Completed, d[0].State)
	lateOn(t, func(r *rank) {
		<-r.failed()
		dumped(r.t, r.dir, 1)
	}, func(t *testing.T, dir string) {
		require.Len(t, recent(dumped(t, dir, 0)), 2)
		all := recent(dumped(t, dir, 1))
		require.Len(t, all, 1)
		require.Equal(t, flight.Completed, all[0].State)
	})
}

// TestNCCLErrorsDump has the survivor of a process that exits write its dump, and end.
func TestNCCLErrorsDump(t *testing.T) {
	beside(t)
	dir, all := dumping(t, "errors dump")
	require.Equal(t, pg.ExitCode, all[0].code, "%s", all[0].out)
	require.Equal(t, 1, all[1].code, "%s", all[1].out)
	require.Len(t, recent(dumped(t, dir, 0)), 2)
	lateOn(t, func(r *rank) { r.leave() }, func(t *testing.T, dir string) { require.Len(t, recent(dumped(t, dir, 0)), 2) })
}
