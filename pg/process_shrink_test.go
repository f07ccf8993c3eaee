package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

func init() { roles["shrink"] = shrinkAndGoOn }

// shrinkAndGoOn works until the group fails, and then in a group of those that are left, as often as the argument says.
func shrinkAndGoOn(p *process, g *pg.Group, times string) error {
	left, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
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
	if left > 1 {
		return errors.Join(shrinkAndGoOn(p, n, strconv.Itoa(left-1)), n.Close())
	}
	return errors.Join(checkAll(n), n.Close())
}

// TestShrinkProcesses kills processes the hard way, one after the other; the rest form a group without them, and leave nothing
// in the store.
func TestShrinkProcesses(t *testing.T) {
	t.Parallel()
	for transport, victims := range map[string][]int{"shm": {0}, "tcp": {2, 0}} {
		t.Run("transport="+transport, func(t *testing.T) {
			t.Parallel()
			needs(t, transport)
			srv := serve(t)
			o := order{Role: "shrink", Arg: strconv.Itoa(len(victims)), Config: config{Transport: transport, StoreAt: srv.Addr().String(), Timeout: patience}}
			job := launch(t, 4, o, nil)
			job.all("init")
			left := map[int]*rankProcess{}
			for rank, p := range job.procs {
				left[rank] = p
			}
			for _, victim := range victims {
				for _, p := range left {
					p.next("ready")
				}
				require.NoError(t, left[victim].cmd.Process.Kill())
				killed := time.Now()
				delete(left, victim)
				for rank, p := range left {
					r := p.next("smaller")
					t.Logf("rank %d after %v: %s", rank, r.When.Sub(killed).Round(time.Millisecond), r.Text)
					require.Contains(t, r.Text, fmt.Sprintf("of %d over %s", len(left), transport))
					require.Less(t, r.When.Sub(killed), soon())
				}
			}
			for _, p := range left {
				require.Empty(t, p.next("done").Err)
				p.ends()
			}
			job.tidy()
			require.Empty(t, keysIn(t, srv))
		})
	}
}
