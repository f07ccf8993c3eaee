package pg_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
	"github.com/colligo-go/colligo/pg"
)

// logged returns the lines of a process's log that hold a text.
func (p *rankProcess) logged(text string) (all []string) {
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, text) {
			all = append(all, line)
		}
	}
	return all
}

// TestSaysWhoIsMissing has a rank stay away. The others say so on one line after 5 s and on the next after 15.
func TestSaysWhoIsMissing(t *testing.T) {
	t.Parallel()
	saysWhoIsMissing(t, "tcp://"+freeport.Address(t, "127.0.0.1"))
}

// TestSaysWhoIsMissingInFile does the same with a file store. It is no subtest, since a test that takes so long is to begin first.
func TestSaysWhoIsMissingInFile(t *testing.T) {
	t.Parallel()
	saysWhoIsMissing(t, "file://"+t.TempDir()+"/meet")
}

func saysWhoIsMissing(t *testing.T, init string) {
	job := newJob(t)
	c := config{Init: init, Size: 4, ConnectTimeout: 20 * time.Second}
	for c.Rank = range 3 {
		job.start(order{Config: c})
	}
	for rank, p := range job.procs {
		require.Contains(t, p.next("init").Err, "rank 3 has not come")
		p.exits()
		lines := p.logged("waits for ranks that have not come")
		require.Len(t, lines, 2, p.log.String())
		for i, waited := range []int{5, 15} {
			require.Regexp(t, fmt.Sprintf(`level=WARN .* group=0 rank=%d missing="rank 3" size=4 waited=(%d|%d|%d|%d|%d)s\n`, rank, waited, waited+1, waited+2, waited+3, waited+4), lines[i])
		}
	}
}

// TestSaysThatThereIsNoStore has nobody serve the store, and then something else listen at its place.
func TestSaysThatThereIsNoStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve         func(net.Conn) // nil: nobody listens
		logs, says    string
		lines         int
		limit, within time.Duration
	}{
		"nobody": {nil, "refused", "refused", 1, 11 * time.Second, 11*time.Second + margin},
		"silent": {func(c net.Conn) { io.Copy(io.Discard, c) }, "accepted the connection but does not answer as a store",
			"accepted the connection but does not answer as a store", 1, 11 * time.Second, 11*time.Second + margin},
		"another": {func(c net.Conn) { io.WriteString(c, "SSH-2.0-example\r\n") }, "", `no store: it answered \"SSH-\"`, 0, patience, soon()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := freeport.Address(t, "127.0.0.1")
			if c.serve != nil {
				l, err := net.Listen("tcp", addr)
				require.NoError(t, err)
				t.Cleanup(func() { l.Close() })
				go func() {
					for {
						conn, err := l.Accept()
						if err != nil {
							return
						}
						t.Cleanup(func() { conn.Close() })
						go c.serve(conn)
					}
				}()
			}
			job, began := newJob(t), time.Now()
			p := job.start(order{Config: config{Init: "tcp://" + addr, Rank: 1, Size: 2, ConnectTimeout: c.limit}})
			r := p.next("init")
			require.Contains(t, fmt.Sprintf("%q", r.Err), c.says)
			require.Less(t, r.When.Sub(began), c.within)
			p.exits()
			lines := p.logged("cannot reach the store yet")
			require.Len(t, lines, c.lines, p.log.String())
			for _, line := range lines {
				require.Contains(t, line, "level=WARN")
				require.Contains(t, line, "rank=1 store=\"the store of rank 0 at "+addr+"\"")
				require.Contains(t, line, c.logs)
			}
		})
	}
}

// TestSaysWhatFormed has the debug level INFO log one line for each group, on its rank 0.
func TestSaysWhatFormed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ transport, at string }{{"shm", "interface=none"}, {"tcp", `interface="127.0.0.1 (lo)"`}} {
		t.Run("transport="+c.transport, func(t *testing.T) {
			t.Parallel()
			needs(t, c.transport)
			job := newJob(t)
			o := order{Role: "check", Config: config{Init: "tcp://" + freeport.Address(t, "127.0.0.1"), Size: 2, Transport: c.transport}}
			for o.Config.Rank = range 2 {
				job.start(o, "COLLIGO_DEBUG=INFO")
			}
			for rank, p := range job.procs {
				p.succeeds()
				lines := p.logged("group formed")
				require.Len(t, lines, 1-rank, p.log.String())
				for _, line := range lines {
					require.Contains(t, line, "level=INFO")
					require.Contains(t, line, "group=0 rank=0 size=2 hosts=1 media="+c.transport+" "+c.at+" backends=")
					require.Contains(t, line, "table=default\n")
				}
			}
		})
	}
}

// TestConnectTimeoutOfEnvironment takes the limit from the variable.
func TestConnectTimeoutOfEnvironment(t *testing.T) {
	t.Setenv("COLLIGO_CONNECT_TIMEOUT_SEC", "1")
	began := time.Now()
	_, err := pg.Init(t.Context(), pg.Config{Init: "tcp://" + freeport.Address(t, "127.0.0.1"), Rank: 1, Size: 2})
	require.ErrorContains(t, err, "cannot be reached")
	require.Less(t, time.Since(began), soon()) // the usual limit is minutes
	t.Setenv("COLLIGO_CONNECT_TIMEOUT_SEC", "soon")
	_, err = pg.Init(t.Context(), pg.Config{Size: 1})
	require.ErrorContains(t, err, `environment variable COLLIGO_CONNECT_TIMEOUT_SEC is "soon"`)
}
