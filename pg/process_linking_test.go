package pg_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSaysWhoIsNotLinked holds a rank up that has registered, before its first link. The others name it on one line after 5 s. They
// form the group when it goes on.
func TestSaysWhoIsNotLinked(t *testing.T) {
	t.Parallel()
	job := launch(t, 3, order{Role: "check", Config: config{Transport: "auto", Medium: "tcp"}}, func(rank int, o *order) { o.Config.Held = rank == 1 })
	job.procs[1].next("held")
	for _, rank := range []int{0, 2} {
		job.procs[rank].logs("waits for links with ranks that have come")
	}
	job.procs[1].say("go")
	job.all("init")
	for rank, p := range job.procs {
		require.Empty(t, p.next("done").Err)
		p.ends()
		if rank == 1 {
			continue
		}
		lines := p.logged("waits for links with ranks that have come")
		require.Len(t, lines, 1, p.log.String())
		require.Contains(t, lines[0], `missing="rank 1" size=3 waited=`)
	}
}

// TestKilledBeforeLinking kills a rank that has registered, before its first link: the first or the last of those that do not serve
// the store. The others know it in seconds, not only when the limit of forming has passed.
func TestKilledBeforeLinking(t *testing.T) {
	t.Parallel()
	for name, victim := range map[string]int{"rank=1": 1, "rank=last": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := launch(t, 4, order{Config: config{Transport: "auto", Medium: "tcp"}}, func(rank int, o *order) { o.Config.Held = rank == victim })
			job.procs[victim].next("held")
			killed := time.Now()
			require.NoError(t, job.procs[victim].cmd.Process.Kill())
			for rank, p := range job.procs {
				if rank == victim {
					continue
				}
				r := p.next("init")
				t.Logf("rank %d after %v: %s", rank, r.When.Sub(killed).Round(time.Millisecond), r.Err)
				require.Regexp(t, fmt.Sprintf(`rank %d \(process .*\) is lost: its connection with the store has ended`, victim), r.Err)
				require.Contains(t, r.Is, "lost")
				require.Less(t, r.When.Sub(killed), soon())
				p.exits()
			}
		})
	}
}
