package pg_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

func init() { roles["shrink"] = shrinkAndGoOn }

// shrinkAndGoOn works until the group fails, and then in a group of those that are left.
func shrinkAndGoOn(p *process, g *pg.Group, _ string) error {
	if err := loop(p, g, "small all_reduce"); !errors.Is(err, colligo.ErrPeerLost) {
		return fmt.Errorf("the group ended with %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := g.Shrink(ctx)
	if err != nil {
		return err
	}
	if err := p.tell("smaller", fmt.Sprint(n), nil); err != nil {
		return err
	}
	return errors.Join(checkAll(n), n.Close())
}

// TestShrinkProcesses kills a process the hard way; the others form a group without it, and leave nothing in the store.
func TestShrinkProcesses(t *testing.T) {
	for i, transport := range []string{"shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			t.Parallel()
			needs(t, transport)
			srv := serve(t)
			o := order{Role: "shrink", Config: config{Transport: transport, StoreAt: srv.Addr().String(), Timeout: patience}}
			job := launch(t, 4, o, nil)
			job.all("init")
			job.all("ready")
			victim := 2 * i
			require.NoError(t, job.procs[victim].cmd.Process.Kill())
			killed := time.Now()
			for rank, p := range job.procs {
				if rank == victim {
					continue
				}
				r := p.next("smaller")
				t.Logf("rank %d after %v: %s", rank, r.When.Sub(killed).Round(time.Millisecond), r.Text)
				require.Contains(t, r.Text, "of 3 over "+transport)
				require.Less(t, r.When.Sub(killed), 10*time.Second)
			}
			for rank, p := range job.procs {
				if rank != victim {
					require.Empty(t, p.next("done").Err)
					p.ends()
				}
			}
			job.tidy()
			require.Empty(t, keysIn(t, srv))
		})
	}
}
