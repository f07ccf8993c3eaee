package pg_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCloseInAnyOrder has ranks leave one after the other, rank 0 with the store first, while the others hold their group
// open and then close it.
func TestCloseInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp"} {
		for _, order4 := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
			t.Run(fmt.Sprintf("transport=%s/order=%v", transport, order4), func(t *testing.T) {
				t.Parallel()
				needs(t, transport)
				j := launch(t, 4, order{Role: "hold", Config: config{Transport: transport}}, nil)
				j.all("init")
				for _, rank := range order4 {
					j.procs[rank].say("go")
					require.Empty(t, j.procs[rank].next("done").Err)
					j.procs[rank].ends()
				}
				j.tidy()
			})
		}
	}
}

// TestWorkAfterStoreLeft has rank 0, with the store, leave while the others go on with what needs neither.
func TestWorkAfterStoreLeft(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			t.Parallel()
			needs(t, transport)
			j := launch(t, 3, order{Role: "without rank 0", Config: config{Transport: transport, Timeout: patience}}, nil)
			j.all("init")
			require.Empty(t, j.procs[0].next("done").Err)
			j.procs[0].ends()
			for _, p := range j.procs[1:] {
				p.say("go")
			}
			for _, p := range j.procs[1:] {
				require.Empty(t, p.next("done").Err)
				p.ends()
			}
		})
	}
}

// TestLeavingIsNotDying has one rank leave where the others go on: their next call says that it closed the group.
func TestLeavingIsNotDying(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp"} {
		for _, name := range []string{"all_reduce", "small all_reduce", "barrier"} {
			t.Run(fmt.Sprintf("transport=%s/coll=%s", transport, name), func(t *testing.T) {
				t.Parallel()
				needs(t, transport)
				leave(t, 1, order{Role: "loop", Arg: name, Config: config{Transport: transport, Timeout: patience}})
			})
		}
	}
}

// leave starts four processes of which one closes its group at once.
func leave(t *testing.T, leaver int, o order) {
	j := launch(t, 4, o, func(rank int, o *order) {
		if rank == leaver {
			o.Role = "leave"
		}
	})
	j.all("init")
	for rank, p := range j.procs {
		r := p.next("done")
		if rank != leaver {
			require.Contains(t, r.Is, "lost", r.Err)
			require.Contains(t, r.Err, fmt.Sprintf("rank %d: peer closed the group", leaver))
			namesOnly(t, r.Err, leaver)
		}
		p.ends()
	}
}

// TestClosePending closes groups under pending operations, twice and at the same time, and after a peer was killed.
func TestClosePending(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp"} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("transport=%s/kill=%v", transport, kill), func(t *testing.T) {
				t.Parallel()
				needs(t, transport)
				j := launch(t, 4, order{Role: "pending", Config: config{Transport: transport}}, func(rank int, o *order) {
					if rank == 3 {
						o.Role = "hold"
					}
				})
				j.all("init")
				last := j.procs[3]
				if kill {
					require.NoError(t, last.cmd.Process.Kill())
				}
				for _, p := range j.procs[:3] {
					require.Empty(t, p.next("done").Err)
					p.ends()
				}
				if !kill {
					last.say("go")
					require.Empty(t, last.next("done").Err)
					last.ends()
				}
			})
		}
	}
}

// TestCloseAfterDeath kills ranks of a group that does nothing, and closes it.
func TestCloseAfterDeath(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			t.Parallel()
			needs(t, transport)
			j := launch(t, 4, order{Role: "hold", Config: config{Transport: transport}}, nil)
			j.all("init")
			for _, rank := range []int{0, 2} {
				require.NoError(t, j.procs[rank].cmd.Process.Kill())
			}
			for _, rank := range []int{1, 3} {
				j.procs[rank].say("go")
				require.Empty(t, j.procs[rank].next("done").Err)
				began := time.Now()
				j.procs[rank].ends()
				require.Less(t, time.Since(began), soon())
			}
			j.tidy()
		})
	}
}
