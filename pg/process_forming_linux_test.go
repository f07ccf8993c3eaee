package pg_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/shm"
	"github.com/colligo-go/colligo/transport/tcp"
)

func init() { roles["new group"] = makeGroup }

// makeGroup makes a group of ranks that the argument lists, when told. Its first word may be "local". As "color" it is a split.
func makeGroup(p *process, g *pg.Group, arg string) error {
	text, local := strings.CutPrefix(arg, "local ")
	text, split := strings.CutPrefix(text, "color ")
	var ranks []int
	for part := range strings.SplitSeq(text, " ") {
		rank, err := strconv.Atoi(part)
		if err != nil {
			return err
		}
		ranks = append(ranks, rank)
	}
	if err := p.tell("ready", "", nil); err != nil {
		return err
	}
	if _, err := p.hear(); err != nil {
		return err
	}
	if err := p.tell("told", "", nil); err != nil {
		return err
	}
	var n *pg.Group
	var err error
	if ctx := context.Background(); split {
		n, err = g.SplitByColor(ctx, g.Rank()%2, 0, pg.GroupOptions{})
	} else {
		n, err = g.NewGroupWith(ctx, ranks, pg.GroupOptions{LocalSync: local})
	}
	if err != nil {
		return err
	}
	return n.Close()
}

// allowFiles lets the process open so many more files than it has open.
func allowFiles(more int) error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: uint64(len(open) - 1 + more), Max: uint64(len(open) - 1 + more)} // one of them was of the look
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// openWithFew opens a mesh when the process may open so many more files, 0 being any number.
func openWithFew(medium string, more int) func(context.Context, *transport.Config) (transport.Mesh, error) {
	return func(ctx context.Context, tc *transport.Config) (transport.Mesh, error) {
		if more > 0 {
			_ = shm.HostID() // which reads files, once
			if err := allowFiles(more); err != nil {
				return nil, err
			}
		}
		switch medium {
		case "cut":
			return openCutting(ctx, tc)
		case "shm":
			return shm.Open(ctx, tc)
		}
		return tcp.Open(ctx, tc)
	}
}

// TestTooManyFiles has one rank run out of file descriptors while the group forms, after a few of them or many. All ranks know
// it long before their time is up.
func TestTooManyFiles(t *testing.T) {
	t.Parallel()
	for _, medium := range []string{"shm", "tcp"} {
		for _, few := range map[string][]int{"shm": {1, 3}, "tcp": {1, 3, 5, 8}}[medium] {
			for _, victim := range []int{0, 1, 3} {
				t.Run(fmt.Sprintf("medium=%s/files=%d/victim=%d", medium, few, victim), func(t *testing.T) {
					t.Parallel()
					began := time.Now()
					job := launch(t, 4, order{Config: config{Medium: medium, Transport: "auto"}}, func(rank int, o *order) {
						if rank == victim {
							o.Config.Files = few
						}
					})
					for rank, p := range job.procs {
						r := p.next("init")
						t.Logf("rank %d after %v: %s", rank, r.When.Sub(began).Round(time.Millisecond), r.Err)
						require.Contains(t, r.Err, "too many open files")
						require.Less(t, r.When.Sub(began), soon())
						p.exits()
					}
				})
			}
		}
	}
}

// TestKilledForming kills a rank that is linked with two others, while the fourth is not there yet. All know it at once, the
// fourth when it comes.
func TestKilledForming(t *testing.T) {
	t.Parallel()
	job := launch(t, 4, order{Config: config{Transport: "auto", Medium: "tcp"}}, func(rank int, o *order) { o.Config.Held = rank == 3 })
	job.procs[3].next("held")
	time.Sleep(200 * time.Millisecond) // the others link
	killed := time.Now()
	require.NoError(t, job.procs[1].cmd.Process.Kill())
	job.procs[3].say("go")
	for _, rank := range []int{0, 2, 3} {
		r := job.procs[rank].next("init")
		t.Logf("rank %d after %v: %s", rank, r.When.Sub(killed).Round(time.Millisecond), r.Err)
		require.Contains(t, r.Err, "rank 1")
		require.Less(t, r.When.Sub(killed), soon())
		job.procs[rank].exits()
	}
}

// TestStoppedBeforeNewGroup stops a rank that is to be in a new group. All others name it when the limit of the call has passed,
// whether they would have been members or not.
func TestStoppedBeforeNewGroup(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	for medium, arg := range map[string]string{"shm": "0 1 3", "tcp": "color 0"} {
		t.Run("transport="+medium+"/group="+arg, func(t *testing.T) {
			t.Parallel()
			job := launch(t, 4, order{Role: "new group", Arg: arg, Config: config{Transport: medium, ConnectTimeout: limit}}, nil)
			job.all("init")
			job.all("ready")
			require.NoError(t, job.procs[3].cmd.Process.Signal(syscall.SIGSTOP))
			for _, p := range job.procs[:3] {
				p.say("go")
			}
			for rank, p := range job.procs[:3] {
				began := p.next("told").When
				r := p.next("done")
				t.Logf("rank %d after %v: %s", rank, r.When.Sub(began).Round(time.Millisecond), r.Err)
				require.Contains(t, r.Is, "timeout", r.Err)
				require.Contains(t, silent(t, r.Err), 3, "beside it a rank that is held up when it is asked")
				require.Less(t, r.When.Sub(began), limit+margin)
				p.ends()
			}
			require.NoError(t, job.procs[3].cmd.Process.Kill())
		})
	}
}

// TestFirstKilledWhileForming kills rank 0, which serves the store, while others form a group of their own. Their errors name the
// rank.
func TestFirstKilledWhileForming(t *testing.T) {
	t.Parallel()
	for _, medium := range []string{"shm", "tcp"} {
		for _, arg := range []string{"0 1 2", "1 2 3", "local 1 2 3"} {
			t.Run("transport="+medium+"/group="+arg, func(t *testing.T) {
				t.Parallel()
				job := launch(t, 4, order{Role: "new group", Arg: arg, Config: config{Transport: medium}}, nil)
				job.all("init")
				job.all("ready")
				for _, p := range job.procs[1:3] {
					p.say("go")
					p.next("told")
				}
				time.Sleep(rand.N(300 * time.Millisecond))
				killed := time.Now()
				require.NoError(t, job.procs[0].cmd.Process.Kill())
				for rank, p := range job.procs[1:3] {
					r := p.next("done")
					t.Logf("rank %d after %v: %s", rank+1, r.When.Sub(killed).Round(time.Millisecond), r.Err)
					require.Contains(t, r.Err, "rank 0")
					require.Contains(t, r.Is, "lost")
					require.Less(t, r.When.Sub(killed), soon())
					p.ends()
				}
			})
		}
	}
}

// TestFirstKilledWhileShrinking kills one rank, and rank 0 with the store while the others go on. They learn that they cannot.
func TestFirstKilledWhileShrinking(t *testing.T) {
	t.Parallel()
	for _, medium := range []string{"shm", "tcp"} {
		for i := range max(2, *soakRuns/10) {
			t.Run(fmt.Sprintf("transport=%s/run=%d", medium, i), func(t *testing.T) {
				t.Parallel()
				job := launch(t, 5, order{Role: "survive", Arg: "2", Config: config{Transport: medium, Timeout: patience}}, nil)
				job.all("init")
				job.all("ready")
				require.NoError(t, job.procs[2].cmd.Process.Kill())
				time.Sleep(rand.N(60 * time.Millisecond))
				killed := time.Now()
				require.NoError(t, job.procs[0].cmd.Process.Kill())
				for _, rank := range []int{1, 3, 4} {
					p := job.procs[rank]
					r := p.next("done")
					t.Logf("rank %d after %v: %s", rank, r.When.Sub(killed).Round(time.Millisecond), r.Err)
					require.Contains(t, r.Err, "rank 0 of the default group, which serves the store, is lost")
					require.Contains(t, r.Is, "lost")
					require.Less(t, r.When.Sub(killed), soon())
					p.ends()
				}
			})
		}
	}
}
