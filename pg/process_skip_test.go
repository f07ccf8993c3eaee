package pg_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg"
)

func init() {
	roles["skip the last"] = func(_ *process, g *pg.Group, name string) error { // on rank 3
		call := calls[name](g)
		for i := range 3 {
			if i == 2 && g.Rank() == 3 {
				return nil
			}
			if err := call(context.Background()); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestSkipTheLast has one rank leave out the last collective. With the barrier at Close every rank gets an error, from the
// collective or from Close. Without the fault no rank does.
func TestSkipTheLast(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp"} {
		for _, name := range []string{"small all_reduce", "broadcast", "reduce", "gather", "scatter", "barrier", "all_to_all"} {
			t.Run(fmt.Sprintf("transport=%s/coll=%s", transport, name), func(t *testing.T) {
				t.Parallel()
				needs(t, transport)
				o := order{Role: "skip the last", Arg: name, Config: config{Transport: transport, Timeout: patience, CloseBarrier: true}}
				job := launch(t, 4, o, nil)
				job.all("init")
				began := time.Now()
				for rank, p := range job.procs {
					called, closed := p.next("done"), p.next("closed")
					t.Logf("rank %d after %v: %q, at Close %q", rank, closed.When.Sub(began).Round(time.Millisecond), called.Err, closed.Err)
					require.NotEmpty(t, called.Err+closed.Err)
					require.Contains(t, append(called.Is, closed.Is...), "mismatch")
					require.Contains(t, called.Err+closed.Err, "rank 3 closes the group after collective #2")
					require.Less(t, closed.When.Sub(began), soon())
					p.exits()
				}
			})
		}
		t.Run("transport="+transport+"/right", func(t *testing.T) {
			t.Parallel()
			needs(t, transport)
			job := launch(t, 4, order{Role: "check", Config: config{Transport: transport, CloseBarrier: true}}, nil)
			for _, p := range job.procs {
				p.succeeds()
			}
			job.tidy()
		})
	}
}
