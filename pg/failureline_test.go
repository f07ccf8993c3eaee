package pg_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport/sim"
)

// logs keeps the lines that each rank writes.
type logs struct {
	mu sync.Mutex
	of []bytes.Buffer
}

// rankLog is the writer of one rank.
type rankLog struct {
	all  *logs
	rank int
}

// Write implements io.Writer.
func (l rankLog) Write(p []byte) (int, error) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	return l.all.of[l.rank].Write(p)
}

// lines returns what a rank has written.
func (l *logs) lines(rank int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSuffix(l.of[rank].String(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// forget drops what a rank has written so far.
func (l *logs) forget(rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[rank].Reset()
}

// cause is why a group of many ranks fails.
type cause struct {
	victim bool                                                // rank 17 is at fault and has no line
	says   string                                              // in each line
	does   func(t *testing.T, g *pg.Group, net *sim.Net) error // of rank 17, in the second all-reduce
}

var causes = map[string]cause{
	"killed": {victim: true, says: "rank 17", does: func(_ *testing.T, g *pg.Group, net *sim.Net) error {
		net.Kill(17)
		return nil
	}},
	"missing": {says: "rank 17 has not entered", does: func(_ *testing.T, g *pg.Group, _ *sim.Net) error {
		time.Sleep(5 * time.Second)
		return g.Err()
	}},
	"size": {says: "100 int32 elements", does: func(t *testing.T, g *pg.Group, _ *sim.Net) error {
		return g.AllReduce(t.Context(), colligo.Of(make([]int32, 101)), colligo.Sum)
	}},
	"order": {says: "barrier", does: func(t *testing.T, g *pg.Group, _ *sim.Net) error { return g.Barrier(t.Context()) }},
	"abort": {says: "out of disk", does: func(t *testing.T, g *pg.Group, _ *sim.Net) error {
		g.Abort(errors.New("out of disk"))
		return g.Err()
	}},
}

// TestOneLineEachOf64 has 64 ranks fail of one cause, with several operations pending on each. Each rank that lives logs one line,
// which names the cause and no operation twice. Later calls fail and log nothing.
func TestOneLineEachOf64(t *testing.T) {
	for name, c := range causes {
		t.Run(name, func(t *testing.T) { failsInOneLine(t, c, pgtest.Options{}) })
	}
	for _, transport := range []string{"shm", "tcp"} {
		t.Run("size/transport="+transport, func(t *testing.T) {
			needs(t, transport)
			failsInOneLine(t, causes["size"], pgtest.Options{Transport: transport})
		})
	}
}

func failsInOneLine(t *testing.T, c cause, o pgtest.Options) {
	const ranks = 64
	all := &logs{of: make([]bytes.Buffer, ranks)}
	var net *sim.Net
	o.Net = func(n *sim.Net) { net = n }
	o.Config = func(rank int, p *pg.Config) {
		p.Log = slog.New(slog.NewTextHandler(rankLog{all, rank}, &slog.HandlerOptions{Level: slog.LevelWarn})) // as by default
		p.Timeout = 3 * time.Second                                                                            // before the first line about waiting
		if o.Transport != "" {
			p.Timeout = time.Minute
		}
	}
	var ready arrivals
	pgtest.RunWith(t, ranks, o, func(t *testing.T, g *pg.Group) {
		ctx, x := t.Context(), make([]int32, 100)
		err := g.AllReduce(ctx, colligo.Of(x), colligo.Sum)
		all.forget(g.Rank()) // on a busy machine links take their time, of which ranks tell
		ready.n.Add(1)
		require.NoError(t, err)
		if g.Rank() == 17 {
			ready.await(ranks)      // else a rank that is late forgets the line of the failure
			time.Sleep(time.Second) // all others wait for this rank
			require.Equal(t, c.victim, c.does(t, g, net) == nil)
			if c.victim {
				return
			}
		} else {
			work := g.AllReduceAsync(ctx, colligo.Of(x), colligo.Sum)
			behind := g.AllReduceAsync(ctx, colligo.Of(make([]int32, 7)), colligo.Sum)
			require.Error(t, work.Wait(ctx))
			require.Error(t, behind.Wait(ctx))
		}
		for range 3 {
			require.Error(t, g.Barrier(ctx), "the group has failed")
		}
	})
	for rank := range ranks {
		lines := all.lines(rank)
		if o.Transport != "" { // in real time, of which an operation may take seconds on a busy machine
			lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, `msg="an operation waits"`) })
		}
		if rank == 17 && c.victim {
			continue
		}
		require.Len(t, lines, 1, "rank %d: %s", rank, strings.Join(lines, "\n"))
		require.Contains(t, lines[0], `level=WARN msg="group failed" group=0 rank=`+fmt.Sprint(rank)+" ")
		require.Contains(t, lines[0], c.says)
		require.LessOrEqual(t, strings.Count(lines[0], "reported: "), 1, lines[0])
	}
}
