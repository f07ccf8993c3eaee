// Package pgtest runs code of many ranks in one test process. By default the ranks are linked by transport/sim inside a
// testing/synctest bubble. Time is virtual, so a timeout of an hour passes in no time. Delays and faults repeat with the
// seed, and a goroutine left behind fails the test.
//
//	func TestSum(t *testing.T) {
//		pgtest.Run(t, 4, func(t *testing.T, g *pg.Group) {
//			x := []float32{float32(g.Rank())}
//			require.NoError(t, g.AllReduce(t.Context(), colligo.Of(x), colligo.Sum))
//			require.Equal(t, []float32{6}, x)
//		})
//	}
//
// Invariants:
//
//  1. Each rank runs on a goroutine of its own. A rank that returns, or whose test fails fatally, closes its groups; ranks
//     that need it then get an error instead of waiting.
//  2. Inside the bubble nothing may wait for the world outside it: no sockets, processes or mutexes held by others. Options
//     with Transport "shm" or "tcp", or RealTime, run without a bubble.
package pgtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
)

var seedFlag = flag.Uint64("pgtest.seed", 0, "seed of simulated transports; 0 derives one from the test's name")

// Options say how Run links the ranks. The zero value is a simulation without delays or faults.
type Options struct {
	Seed      uint64                                // of sim; 0 takes the flag -pgtest.seed, else the test's name
	Sim       sim.Config                            // delays and faults; Size and Seed are filled in
	Net       func(*sim.Net)                        // called with the network before the ranks start, to plant faults
	Transport string                                // "sim" (also when empty), "shm" or "tcp"
	RealTime  bool                                  // sim without a bubble
	Config    func(rank int, c *pg.Config)          // changes each rank's configuration
	InitError func(t *testing.T, rank int, e error) // takes the error of a rank whose Init fails; nil fails the test
}

// Run calls f once for every rank of a group of the given size, and returns when all have returned.
func Run(t *testing.T, size int, f func(t *testing.T, g *pg.Group)) {
	t.Helper()
	RunWith(t, size, Options{}, f)
}

// RunWith calls f once for every rank of a group, as Run does, with the given transport, faults and configuration.
func RunWith(t *testing.T, size int, o Options, f func(t *testing.T, g *pg.Group)) {
	t.Helper()
	if size < 1 {
		panic(fmt.Sprintf("pgtest: a group of %d ranks", size))
	}
	if o.Transport != "" && o.Transport != "sim" || o.RealTime {
		run(t, size, o, f)
		return
	}
	synctest.Test(t, func(t *testing.T) { run(t, size, o, f) })
}

func run(t *testing.T, size int, o Options, f func(t *testing.T, g *pg.Group)) {
	c := pg.Config{Store: store.NewHash(), Size: size, Transport: o.Transport, Log: slog.New(slog.DiscardHandler),
		Recorder: pg.RecorderOptions{DumpOnError: pg.Off}}
	var net *sim.Net
	if o.Transport == "" || o.Transport == "sim" {
		o.Sim.Size, o.Sim.Seed = size, o.seed(t)
		net, c.Transport = sim.New(o.Sim), ""
		if o.Net != nil {
			o.Net(net)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("pgtest: the seed was %d; repeat with -pgtest.seed=%[1]d", o.Sim.Seed)
			}
		})
	}
	var ranks sync.WaitGroup
	for rank := range size {
		ranks.Go(func() {
			c := c
			c.Rank = rank
			if net != nil {
				c.Open = func(ctx context.Context, tc *transport.Config) (transport.Mesh, error) {
					return net.OpenAs(ctx, rank, tc)
				}
			}
			o.rank(t, c, f)
		})
	}
	ranks.Wait()
}

// rank is the life of one rank.
func (o *Options) rank(t *testing.T, c pg.Config, f func(t *testing.T, g *pg.Group)) {
	if o.Config != nil {
		o.Config(c.Rank, &c)
	}
	g, err := pg.Init(context.Background(), c)
	if err != nil {
		if o.InitError != nil {
			o.InitError(t, c.Rank, err)
		} else {
			t.Errorf("rank %d: %v", c.Rank, err)
		}
		return
	}
	defer func() {
		if err := g.CloseAll(); err != nil && !errors.Is(err, colligo.ErrClosed) {
			t.Errorf("rank %d: close: %v", c.Rank, err)
		}
	}()
	f(t, g)
}

func (o *Options) seed(t *testing.T) uint64 {
	if o.Seed != 0 {
		return o.Seed
	}
	if *seedFlag != 0 {
		return *seedFlag
	}
	h := fnv.New64a()
	fmt.Fprint(h, t.Name())
	return h.Sum64()
}
