package pg_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/tcpstore"
)

// launched is the environment that a launcher gives a rank.
func launched(rank, size int, addr string) []string {
	host, port, _ := net.SplitHostPort(addr)
	return []string{fmt.Sprintf("RANK=%d", rank), fmt.Sprintf("WORLD_SIZE=%d", size), "MASTER_ADDR=" + host, "MASTER_PORT=" + port}
}

// TestMeet has processes meet in every way there is.
func TestMeet(t *testing.T) {
	t.Parallel()
	const size = 4
	file := filepath.Join(t.TempDir(), "meet")
	for name, start := range map[string]func(t *testing.T, j *job){
		"env": func(t *testing.T, j *job) {
			addr := freeport.Address(t, "127.0.0.1")
			for rank := range size {
				j.start(order{Role: "check"}, launched(rank, size, addr)...)
			}
		},
		"Open MPI": func(t *testing.T, j *job) {
			port := freeport.Port(t, "127.0.0.1")
			for rank := range size {
				j.start(order{Role: "check"}, "OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_COMM_WORLD_SIZE=4", "MASTER_PORT="+port,
					fmt.Sprintf("OMPI_COMM_WORLD_RANK=%d", rank))
			}
		},
		"tcp with a query": func(t *testing.T, j *job) {
			addr := freeport.Address(t, "127.0.0.1")
			for rank := range size {
				j.start(order{Role: "check", Config: config{Init: fmt.Sprintf("tcp://%s?rank=%d&world_size=%d", addr, rank, size)}})
			}
		},
		"IPv6": func(t *testing.T, j *job) {
			addr := freeport.Address(t, "::1")
			for rank := range size {
				j.start(order{Role: "check", Config: config{Init: "tcp://" + addr, Rank: rank, Size: size, Transport: "tcp"}})
			}
		},
		"host name": func(t *testing.T, j *job) {
			port := freeport.Port(t, "127.0.0.1")
			for rank := range size {
				j.start(order{Role: "check", Config: config{Init: "tcp://localhost:" + port, Rank: rank, Size: size, Transport: "tcp"}})
			}
		},
		"alone": func(_ *testing.T, j *job) {
			j.start(order{Role: "check", Config: config{Init: "tcp://127.0.0.1:0", Rank: 0, Size: 1}})
		},
		"file": func(t *testing.T, j *job) {
			for rank := range size {
				j.start(order{Role: "check", Config: config{Init: "file://" + file, Rank: rank, Size: size}})
			}
		},
		"a store of one's own": func(t *testing.T, j *job) {
			srv := serve(t)
			for rank := range size {
				j.start(order{Role: "check", Config: config{StoreAt: srv.Addr().String(), Rank: rank, Size: size}})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			start(t, j)
			for _, p := range j.procs {
				p.succeeds()
			}
			j.tidy()
			if name == "file" {
				require.NoFileExists(t, file, "the last to leave removes it")
			}
		})
	}
}

// serve starts a TCP store for a test.
func serve(t *testing.T) *tcpstore.Server {
	t.Helper()
	srv, err := tcpstore.Listen("127.0.0.1:0", tcpstore.ServerOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	return srv
}

// keysIn lists what is in a store.
func keysIn(t *testing.T, srv *tcpstore.Server) []string {
	t.Helper()
	c, err := tcpstore.Dial(t.Context(), srv.Addr().String(), tcpstore.ClientOptions{})
	require.NoError(t, err)
	defer c.Close()
	keys, err := c.ListKeys(t.Context())
	require.NoError(t, err)
	return keys
}

// TestAgentStore has the launcher serve the store, as torchrun's agent does, and outlive an attempt at the job.
func TestAgentStore(t *testing.T) {
	t.Parallel()
	srv := serve(t)
	for attempt := range 2 {
		j := newJob(t)
		for rank := range 3 {
			j.start(order{Role: "loop", Arg: "small all_reduce", Config: config{Timeout: patience}},
				append(launched(rank, 3, srv.Addr().String()), "TORCHELASTIC_USE_AGENT_STORE=True",
					fmt.Sprintf("TORCHELASTIC_RESTART_COUNT=%d", attempt))...)
		}
		j.all("init")
		j.all("ready")
		require.Contains(t, keysIn(t, srv), fmt.Sprintf("attempt_%d/colligo/0/rank/2", attempt))
		require.NoError(t, j.procs[0].cmd.Process.Kill())
		for _, p := range j.procs[1:] {
			require.Contains(t, p.next("done").Is, "lost")
			p.ends()
		}
	}
	require.Empty(t, keysIn(t, srv), "what the killed rank had there is taken away too")
}

// TestTakenRank has two processes of one rank. The one that comes later is told so; the group works.
func TestTakenRank(t *testing.T) {
	t.Parallel()
	j := launch(t, 3, order{Role: "late"}, nil)
	j.all("init")
	again := order{Config: config{Init: "tcp://" + j.address(t), Rank: 1, Size: 3}}
	says := j.start(again).refused()
	require.Contains(t, says, fmt.Sprintf("rank 1 of group 0 is taken by process %d on ", j.procs[1].cmd.Process.Pid))
	again.Config.Rank = 0
	require.Contains(t, j.start(again).refused(), "address already in use")
	again.Config.Rank = 3
	require.Contains(t, j.start(again).refused(), "rank 3 of 3 ranks; ranks count from 0")
	again.Config.Rank = -1
	require.Contains(t, j.start(again).refused(), "rank -1 of 3 ranks")
	for _, p := range j.procs[:3] {
		p.say("go")
	}
	for _, p := range j.procs[:3] {
		require.Empty(t, p.next("done").Err)
	}
	for _, p := range j.procs[:3] {
		p.ends()
	}
}

// TestWrongSize has one process believe in another size: all are told who says what.
func TestWrongSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ odd, size int }{{0, 6}, {1, 4}, {2, 6}} {
		t.Run(fmt.Sprintf("rank=%d/size=%d", c.odd, c.size), func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			j.meets = freeport.Address(t, "127.0.0.1")
			o := order{Role: "check", Config: config{Init: "tcp://" + j.meets, Size: 5}}
			var others []*rankProcess
			for o.Config.Rank = range 5 {
				if o.Config.Rank != c.odd {
					others = append(others, j.start(o))
				}
			}
			if c.odd != 0 {
				infos := []string{"rank/0", "rank/1", "rank/2", "rank/3", "rank/4"}
				require.NoError(t, store.NewPrefix("colligo/0", j.storeOf(t)).Wait(t.Context(), slices.Delete(infos, c.odd, c.odd+1)...))
			}
			o.Config.Rank, o.Config.Size = c.odd, c.size
			says := j.start(o).refused()
			// A rank finds another's number, or first hears that it has given up, and why. Either names it and both numbers.
			require.Regexp(t, fmt.Sprintf(`rank [0-4] \(process .*\) (says the group has 5 ranks, here it has %[2]d|`+
				`has given up: rank %[1]d \(process .*\) says the group has %[2]d ranks, here it has 5)`, c.odd, c.size), says)
			for _, p := range others {
				require.Regexp(t, fmt.Sprintf(`rank %d \(process .*\) (says the group has %[2]d ranks, here it has 5|`+
					`has given up: rank [0-4] \(process .*\) says the group has 5 ranks, here it has %[2]d)`, c.odd, c.size), p.refused())
			}
		})
	}
}

// TestPortTaken has somebody else listen where rank 0 should.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() { // a server of something else, which knows nothing of the greeting
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "220 mail.example.org ESMTP\r\n")
			c.Close()
		}
	}()
	j := launch(t, 2, order{Role: "check", Config: config{Init: "tcp://" + l.Addr().String(), ConnectTimeout: time.Second}}, nil)
	says := j.procs[0].refused()
	require.Contains(t, says, "address already in use")
	require.Contains(t, says, l.Addr().String()[len("127.0.0.1"):])
	require.Contains(t, j.procs[1].refused(), "the store of rank 0 at "+l.Addr().String()+" cannot be reached")
}

// TestLeftOverFile has a file of another run where the ranks should meet.
func TestLeftOverFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "meet")
	o := order{Role: "loop", Arg: "barrier", Config: config{Init: "file://" + file, Timeout: patience}}
	j := launch(t, 3, o, nil)
	j.all("init")
	j.all("ready")
	for _, p := range j.procs[1:] {
		require.NoError(t, p.cmd.Process.Kill())
	}
	require.Contains(t, j.procs[0].next("done").Is, "lost")
	j.procs[0].ends()
	require.FileExists(t, file, "a process that was killed cannot remove it")
	for rank, p := range launch(t, 3, o, nil).procs {
		says := p.refused()
		t.Logf("rank %d: %s", rank, says)
		require.Contains(t, says, file)
		require.Contains(t, says, "another run")
	}
	require.NoError(t, os.Remove(file))
	o.Role = "check"
	for _, p := range launch(t, 3, o, nil).procs {
		p.succeeds()
	}
	require.NoFileExists(t, file)
}

// TestFileOfSomethingElse refuses to meet in a file that is no store, in a folder, and where there is no folder.
func TestFileOfSomethingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	require.NoError(t, os.WriteFile(text, []byte("these are notes, and nobody's keys and values"), 0o600))
	for _, path := range []string{text, dir, filepath.Join(dir, "none", "file")} {
		j := launch(t, 1, order{Config: config{Init: "file://" + path}}, func(_ int, o *order) { o.Config.Size = 2 })
		require.Contains(t, j.procs[0].refused(), path)
	}
	kept, err := os.ReadFile(text)
	require.NoError(t, err)
	require.Equal(t, "these are notes, and nobody's keys and values", string(kept))
}

// address returns where the job's ranks meet.
func (j *job) address(t *testing.T) string {
	t.Helper()
	require.NotEmpty(t, j.meets)
	return j.meets
}

// storeOf returns a client of the store of a job.
func (j *job) storeOf(t *testing.T) *tcpstore.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := tcpstore.Dial(ctx, j.address(t), tcpstore.ClientOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
