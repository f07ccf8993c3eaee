package pg_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

func init() {
	roles["gather once"] = func(p *process, g *pg.Group, _ string) error { // to rank 2, when told
		if _, err := p.hear(); err != nil {
			return err
		}
		in, outs := make([]float32, 8), [][]float32(nil)
		if g.Rank() == 2 {
			outs = parts(g.Size(), len(in))
		}
		return g.Gather(context.Background(), tensors(outs), colligo.Of(in), 2)
	}
}

// TestLeftAreNotBlamed stops rank 3 before a gather to rank 2, while ranks 0 and 1 have done their part and closed the group. Rank 2
// blames the stopped rank alone, and so does its dump.
func TestLeftAreNotBlamed(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			t.Parallel()
			dumps := t.TempDir()
			job := newJob(t)
			o := order{Role: "gather once", Config: config{Transport: transport, Timeout: 2 * time.Second, Size: 4, StoreAt: serve(t).Addr().String()}}
			for o.Config.Rank = range 4 {
				job.start(o, "COLLIGO_DUMP_ON_TIMEOUT=1", "COLLIGO_FR_DUMP_TEMP_FILE="+dumps+"/trace_")
			}
			job.all("init")
			require.NoError(t, job.procs[3].cmd.Process.Signal(syscall.SIGSTOP))
			for _, p := range job.procs[:2] {
				p.say("go")
			}
			for _, p := range job.procs[:2] {
				require.Empty(t, p.next("done").Err)
				p.ends()
			}
			job.procs[2].say("go") // now, for a rank that is held up may take longer than rank 2 waits
			r := job.procs[2].next("done")
			t.Log(r.Err)
			require.Contains(t, r.Is, "timeout")
			require.Contains(t, r.Err, "rank 3 does not answer after 2s; rank 2 waits; ranks 0-1 have closed the group")
			job.procs[2].ends()
			d, err := flight.ReadFile(flight.Path(dumps+"/trace_", 2))
			require.NoError(t, err)
			require.Equal(t, []int{3}, d.Failures["0"].Ranks)
			require.NoError(t, job.procs[3].cmd.Process.Kill())
		})
	}
}
