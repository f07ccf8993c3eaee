package pg_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStop stops a process without ending it: the others' calls time out and say who does not answer, and so does the
// stopped one's call when it goes on.
func TestStop(t *testing.T) {
	const timeout = time.Second
	for _, c := range []struct {
		transport, name string
		victim          int
	}{{"shm", "1 MiB all_reduce", 2}, {"shm", "send and recv", 2}, {"tcp", "1 MiB all_reduce", 0}, {"tcp", "barrier", 2}} {
		t.Run(fmt.Sprintf("coll=%s/transport=%s/victim=%d", c.name, c.transport, c.victim), func(t *testing.T) {
			t.Parallel()
			job := launch(t, 4, order{Role: "loop", Arg: c.name, Config: config{Transport: c.transport, Timeout: timeout}}, nil)
			job.all("init")
			job.all("ready")
			stopped := job.procs[c.victim]
			at := time.Now()
			require.NoError(t, stopped.cmd.Process.Signal(syscall.SIGSTOP))
			for rank, p := range job.procs {
				if rank == c.victim {
					continue
				}
				r := p.next("done")
				t.Logf("rank %d after %v: %s", rank, r.When.Sub(at).Round(time.Millisecond), r.Err)
				require.Contains(t, r.Is, "timeout", r.Err)
				require.Less(t, r.When.Sub(at), timeout+time.Second)
				if c.name != "send and recv" { // where any neighbour may have been the first to miss one
					require.Contains(t, r.Err, fmt.Sprintf("rank %d does not answer after 1s; ", c.victim))
				}
				p.ends()
			}
			require.NoError(t, stopped.cmd.Process.Signal(syscall.SIGCONT))
			r := stopped.next("done")
			t.Logf("rank %d, stopped: %s", c.victim, r.Err)
			require.NotEmpty(t, r.Err)
			stopped.ends()
			job.tidy()
		})
	}
}
