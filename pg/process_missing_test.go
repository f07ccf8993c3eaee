package pg_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
)

// TestNeverEnters has a rank that does not come to an operation. The others say so on one line.
func TestNeverEnters(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			t.Parallel()
			needs(t, transport)
			start := order{Role: "once", Arg: "1 MiB all_reduce", Config: config{Transport: transport, Timeout: 6 * time.Second}}
			job := launch(t, 4, start, func(rank int, o *order) {
				if rank == 3 {
					o.Role = "hold"
				}
			})
			job.all("init")
			for rank, p := range job.procs[:3] {
				r := p.next("done")
				require.Contains(t, r.Is, "timeout")
				require.Contains(t, r.Err, "all_reduce #1 (float32 sum, 1 MiB): ")
				if strings.Contains(r.Err, "not answer") { // a rank that is held up when it is asked
					require.Regexp(t, `rank 3 has not entered after 6s; ranks? [0-2, -]+ do(es)? not answer|ranks? ([0-2][-, ]+)*3 do(es)? not answer`, r.Err, "rank %d", rank)
				} else {
					require.Contains(t, r.Err, "rank 3 has not entered after 6s; ranks 0-2 wait", "rank %d", rank)
				}
				p.ends()
			}
			job.procs[3].say("go")
			require.Empty(t, job.procs[3].next("done").Err)
			job.procs[3].ends()
		})
	}
}

// TestNeverComes has ranks that do not come to Init. The others name them within the connect timeout.
func TestNeverComes(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"tcp", "file"} {
		for _, absent := range []int{0, 1, 3} {
			t.Run(fmt.Sprintf("rank=%d/store=%s", absent, store), func(t *testing.T) {
				t.Parallel()
				init, says := "file://"+t.TempDir()+"/meet", fmt.Sprintf("rank %d has not come", absent)
				if store == "tcp" {
					init = "tcp://" + freeport.Address(t, "127.0.0.1")
				}
				if store == "tcp" && absent == 0 { // nobody serves the store
					says = "the store of rank 0 at 127.0.0.1:"
				}
				stayAway(t, absent, config{Init: init, Size: 4, ConnectTimeout: 8 * time.Second}, says)
			})
		}
	}
}

// stayAway starts all processes but one, and expects of each an error that says so in time.
func stayAway(t *testing.T, absent int, c config, says string) {
	job := newJob(t)
	began := time.Now()
	for c.Rank = range c.Size {
		if c.Rank != absent {
			job.start(order{Config: c})
		}
	}
	for _, p := range job.procs {
		r := p.next("init")
		t.Logf("after %v: %s", r.When.Sub(began).Round(time.Millisecond), r.Err)
		require.Less(t, r.When.Sub(began), c.ConnectTimeout+lateness())
		require.Contains(t, r.Is, "timeout")
		require.Contains(t, r.Err, says)
		require.Empty(t, r.Left)
		p.exits()
	}
}

// TestLateForStore starts rank 0, which serves the store, after the others.
func TestLateForStore(t *testing.T) {
	t.Parallel()
	job := newJob(t)
	o := order{Role: "check", Config: config{Init: "tcp://" + freeport.Address(t, "127.0.0.1"), Size: 3}}
	for _, rank := range []int{2, 1, 0} {
		o.Config.Rank = rank
		if rank == 0 {
			time.Sleep(300 * time.Millisecond)
		}
		job.start(o)
	}
	for _, p := range job.procs {
		p.succeeds()
	}
}

// TestMismatchedProcesses has one process call something else. All get an error; those that meet it name both calls.
func TestMismatchedProcesses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ odd, other, says, otherSays string }{
		{"max", "sum", "all_reduce #1 (100 float32 elements, max)", "all_reduce #1 (100 float32 elements, sum)"},
		{"int32", "sum", "all_reduce #1 (100 int32 elements, sum)", "all_reduce #1 (100 float32 elements, sum)"},
		{"fewer", "sum", "all_reduce #1 (99 float32 elements, sum)", "all_reduce #1 (100 float32 elements, sum)"},
		{"barrier", "sum", "barrier #1", "all_reduce #1 (100 float32 elements, sum)"},
		{"broadcast from 1", "broadcast", "root 1)", "root 0)"},
		{"reduce to 1", "reduce", "root 1)", "root 0)"},
		{"gather", "all_gather", "gather #1", "all_gather #1"},
		{"scatter", "reduce_scatter", "scatter #1", "reduce_scatter #1"},
	} {
		for _, transport := range []string{"shm", "tcp"} {
			t.Run(fmt.Sprintf("%s among %s/transport=%s", c.odd, c.other, transport), func(t *testing.T) {
				t.Parallel()
				needs(t, transport)
				disagree(t, c.odd, order{Role: "once", Arg: c.other, Config: config{Transport: transport, Timeout: patience}},
					c.says, c.otherSays)
			})
		}
	}
}

// disagree starts four processes, of which one makes another call, and expects of each an error that names both.
func disagree(t *testing.T, odd string, o order, says ...string) {
	job := launch(t, 4, o, func(rank int, o *order) {
		if rank == 2 {
			o.Arg = odd
		}
	})
	job.all("init")
	for rank, p := range job.procs {
		r := p.next("done")
		t.Logf("rank %d: %s", rank, r.Err)
		require.Contains(t, r.Is, "mismatch", r.Err)
		for _, call := range says {
			require.Contains(t, r.Err, call)
		}
		p.ends()
	}
}
