package pg_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
)

// TestFirstStopped has rank 0 stand still, which serves the store, before all ranks have come. The others end at their limit and name it,
// whether they had reached the store before or come to it later.
func TestFirstStopped(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"reached": 3, "not reached": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const size, limit = 4, 8 * time.Second // rank 3 never comes
			job := newJob(t)
			o := order{Role: "check", Config: config{Transport: "tcp", Size: size, ConnectTimeout: limit, Init: "tcp://" + freeport.Address(t, "127.0.0.1")}}
			var began [size]time.Time
			come := func(until int) {
				for ; o.Config.Rank < until; o.Config.Rank++ {
					began[o.Config.Rank] = time.Now()
					job.start(o)
				}
			}
			come(before)
			time.Sleep(time.Second) // so that they have reached the store, most likely
			require.NoError(t, job.procs[0].cmd.Process.Signal(syscall.SIGSTOP))
			come(size - 1)
			for rank, p := range job.procs[1:] {
				r := p.next("init")
				took := r.When.Sub(began[rank+1])
				t.Logf("%s after %v: %s", p.name, took.Round(time.Millisecond), r.Err)
				require.Contains(t, r.Err, "rank 0")
				require.Less(t, took, limit+lateness())
				p.exits()
			}
		})
	}
}
