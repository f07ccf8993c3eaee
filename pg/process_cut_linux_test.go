package pg_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/tcp"
)

// cutting is a rendezvous that leads one peer's addresses through proxies of this process, which can be cut.
type cutting struct {
	transport.Rendezvous
	peer int
	cut  *atomic.Bool
}

// Get implements transport.Rendezvous.
func (c *cutting) Get(ctx context.Context, key string) ([]byte, error) {
	b, err := c.Rendezvous.Get(ctx, key)
	if err != nil || key != fmt.Sprintf("tcp/%d", c.peer) {
		return b, err
	}
	first, _, _ := strings.Cut(string(b), "\n")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", first)
			if err != nil {
				conn.Close()
				continue
			}
			go c.carry(conn, to)
			go c.carry(to, conn)
		}
	}()
	return []byte(l.Addr().String()), nil
}

// carry copies bytes until the link is cut. From then on nothing passes, and no end of a connection either.
func (c *cutting) carry(from io.Reader, to io.WriteCloser) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if c.cut.Load() {
			select {}
		}
		if err != nil {
			to.Close()
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// linkToCut is cut by rank 2's role.
var linkToCut atomic.Bool

// openCutting opens a mesh in which rank 2 reaches rank 1 through proxies.
func openCutting(ctx context.Context, tc *transport.Config) (transport.Mesh, error) {
	c := *tc
	if c.Rank == 2 {
		c.Rendezvous = &cutting{tc.Rendezvous, 1, &linkToCut}
	}
	return tcp.Open(ctx, &c)
}

func init() {
	roles["cut"] = func(p *process, g *pg.Group, name string) error {
		if g.Rank() == 2 {
			time.AfterFunc(500*time.Millisecond, func() { linkToCut.Store(true) })
		}
		call := calls[name](g)
		return clocked(p, func() error {
			for {
				if err := call(context.Background()); err != nil {
					return err
				}
			}
		})
	}
}

// TestCutPair has no byte pass between ranks 1 and 2 any more, while both reach all others. Every error names one of them, and the
// rank that found out says which waits for which.
func TestCutPair(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"all_gather", "all_to_all", "barrier"} {
		t.Run("coll="+name, func(t *testing.T) {
			t.Parallel()
			const timeout = 8 * time.Second
			asking := time.Now().Add(timeout) // not before, a rank asks the others where they are
			job := launch(t, 4, order{Role: "cut", Arg: name, Config: config{Transport: "auto", Medium: "cut", Timeout: timeout}}, nil)
			job.all("init")
			done, held := make([]report, 4), time.Duration(0)
			for rank, p := range job.procs {
				held = max(held, delayed(t, p.next("delays").Text, asking))
				done[rank] = p.next("done")
			}
			for rank, r := range done {
				t.Logf("rank %d, one was held up for %v: %s", rank, held, r.Err)
				require.Contains(t, r.Is, "timeout")
				if held >= starved { // then others may not have come to answer
					continue
				}
				require.Regexp(t, `rank [12] (waits for|does not answer)|waits for (bytes from )?rank [12]\b`, r.Err)
				require.NotRegexp(t, `ranks? [^;]*\b[03]\b[^;]* (does|do) not answer`, r.Err)
			}
			job.kill()
		})
	}
}
