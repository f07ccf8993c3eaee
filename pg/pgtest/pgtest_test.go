package pgtest_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport/sim"
)

// trace returns everything that a network delivers while ranks use it.
func trace(t *testing.T, seed uint64) (events []string) {
	o := pgtest.Options{Seed: seed, Sim: sim.Config{MaxDelay: time.Millisecond, Reorder: true,
		Trace: func(e sim.Event) { events = append(events, e.String()) }}}
	pgtest.RunWith(t, 4, o, func(t *testing.T, g *pg.Group) {
		x := make([]float32, 100_000)
		require.NoError(t, g.AllReduce(t.Context(), colligo.Of(x), colligo.Sum))
		require.NoError(t, g.AllToAllSingle(t.Context(), colligo.Of(make([]float32, 400)), colligo.Of(x[:400]), nil, nil))
	})
	return events
}

// TestSeed repeats a run by its seed, whether it comes from the options, the flag or the test's name.
func TestSeed(t *testing.T) {
	first := trace(t, 7)
	require.Greater(t, len(first), 50)
	for range 5 {
		require.Equal(t, first, trace(t, 7))
	}
	require.NotEqual(t, first, trace(t, 8))
	named := trace(t, 0)
	require.Equal(t, named, trace(t, 0))
	require.NoError(t, flag.Set("pgtest.seed", "7"))
	defer func() { require.NoError(t, flag.Set("pgtest.seed", "0")) }()
	require.Equal(t, first, trace(t, 0))
}

// TestNoRanks does not let a test pass that nobody has run.
func TestNoRanks(t *testing.T) {
	for _, size := range []int{0, -1} {
		require.PanicsWithValue(t, fmt.Sprintf("pgtest: a group of %d ranks", size), func() { pgtest.Run(t, size, nil) })
	}
}

// TestRealTime runs without a bubble: a second takes a second.
func TestRealTime(t *testing.T) {
	start := time.Now()
	pgtest.RunWith(t, 2, pgtest.Options{RealTime: true}, func(t *testing.T, g *pg.Group) {
		require.Equal(t, "sim", g.Transport())
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, g.Barrier(t.Context()))
	})
	require.GreaterOrEqual(t, time.Since(start), 20*time.Millisecond)
}

func TestVirtualTime(t *testing.T) {
	start := time.Now()
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		time.Sleep(time.Duration(g.Rank()) * 10 * time.Minute)
		require.NoError(t, g.Barrier(t.Context()))
	})
	require.Less(t, time.Since(start), time.Minute)
}

// TestTransports runs over the media of real groups.
func TestTransports(t *testing.T) {
	for _, transport := range media {
		pgtest.RunWith(t, 2, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
			require.Equal(t, transport, g.Transport())
			require.NoError(t, g.Barrier(t.Context()))
		})
	}
}

// TestConfig gives each rank a configuration of its own.
func TestConfig(t *testing.T) {
	var mu sync.Mutex
	var ranks []int
	o := pgtest.Options{Config: func(rank int, c *pg.Config) {
		c.Name = "mine"
		mu.Lock()
		defer mu.Unlock()
		ranks = append(ranks, rank)
	}}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) { require.Equal(t, "mine", g.Name()) })
	slices.Sort(ranks)
	require.Equal(t, []int{0, 1, 2}, ranks)
}

// TestInitError takes the errors of ranks that cannot join.
func TestInitError(t *testing.T) {
	var mu sync.Mutex
	got := map[int]error{}
	o := pgtest.Options{
		Config: func(rank int, c *pg.Config) {
			c.ConnectTimeout = time.Minute
			if rank == 1 {
				c.Size = 7
			}
		},
		InitError: func(_ *testing.T, rank int, err error) {
			mu.Lock()
			defer mu.Unlock()
			got[rank] = err
		},
	}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) { t.Errorf("rank %d got a group", g.Rank()) })
	require.Len(t, got, 3)
	// Each finds the other's number, or first hears that the other has given up, and why.
	theirs, mine := `says the group has 7 ranks, here it has 3`, `says the group has 3 ranks, here it has 7`
	require.Regexp(t, `rank 1 \(.*(`+theirs+`|has given up: .*`+mine+`)`, got[0].Error())
	require.Regexp(t, `rank [02] \(.*(`+mine+`|has given up: .*`+theirs+`)`, got[1].Error())
}

// TestNet plants faults before and during the run.
func TestNet(t *testing.T) {
	var net *sim.Net
	o := pgtest.Options{
		Sim: sim.Config{MaxDelay: time.Millisecond},
		Net: func(n *sim.Net) {
			net = n
			n.Slow(2, 1000)
		},
	}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		start := time.Now()
		require.NoError(t, g.Barrier(t.Context()))
		require.Greater(t, time.Since(start), 100*time.Millisecond, "rank 2 is slow")
		if g.Rank() == 1 {
			net.Kill(1)
			require.Error(t, g.Barrier(t.Context()))
			return
		}
		require.ErrorIs(t, g.Barrier(t.Context()), colligo.ErrPeerLost)
	})
}

// TestFatal has a rank of a test in another process fail fatally. The other ranks get errors and the test ends, with the
// seed in its output.
func TestFatal(t *testing.T) {
	const mark = "PGTEST_FATAL"
	if os.Getenv(mark) != "" {
		pgtest.RunWith(t, 3, pgtest.Options{Seed: 99}, func(t *testing.T, g *pg.Group) {
			if g.Rank() == 1 {
				require.Fail(t, "rank 1 gives up")
			}
			if err := g.Barrier(t.Context()); err != nil {
				t.Logf("rank %d got: %v", g.Rank(), err)
			}
		})
		return
	}
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestFatal$", "-test.v", "-test.timeout=20s")
	cmd.Env = append(os.Environ(), mark+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode(), "%s", out)
	for _, says := range []string{"rank 1 gives up", "rank 0 got: barrier #1", "rank 2 got: barrier #1", "peer closed the group",
		"repeat with -pgtest.seed=99", "--- FAIL: TestFatal"} {
		require.Contains(t, string(out), says)
	}
}
