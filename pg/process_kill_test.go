package pg_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKill ends one process the hard way while a collective is under way. Every survivor's call fails, says which rank was
// lost, and does so in time. Every survivor ends as if nothing had been, and leaves nothing behind.
func TestKill(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"all_reduce", "small all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter",
		"all_to_all", "gather", "scatter", "send and recv", "recv from any", "barrier"} {
		for j, transport := range []string{"shm", "tcp"} {
			victim := [2]int{0, 2}[(i+j)%2] // rank 0 is the root of all that have one, and serves the store
			if name == "recv from any" {
				victim = 0 // the others do without any other
			}
			if underRace && (i+2*j)%4 != 0 { // a quarter of them
				continue
			}
			t.Run(fmt.Sprintf("coll=%s/transport=%s/victim=%d", name, transport, victim), func(t *testing.T) {
				t.Parallel()
				needs(t, transport)
				kill(t, victim, order{Role: "loop", Arg: name, Config: config{Transport: transport, Timeout: patience}})
			})
		}
	}
}

// kill starts four processes and kills one.
func kill(t *testing.T, victim int, o order) {
	job := launch(t, 4, o, nil)
	job.all("init")
	job.all("ready")
	time.Sleep(30 * time.Millisecond)
	killed := time.Now()
	require.NoError(t, job.procs[victim].cmd.Process.Kill())
	for rank, p := range job.procs {
		if rank == victim {
			continue
		}
		r := p.next("done")
		took := r.When.Sub(killed)
		t.Logf("rank %d after %v: %s", rank, took.Round(time.Millisecond), r.Err)
		require.Contains(t, r.Is, "lost", r.Err)
		require.Less(t, took, soon())
		namesOnly(t, r.Err, victim)
		p.ends()
	}
	job.tidy()
}
