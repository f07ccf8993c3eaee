package pg_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

var soakRuns = flag.Int("pg.soak", 2, "jobs of each kind that TestShrinkSoak runs")

func init() { roles["survive"] = survive }

// survive works until so many ranks are left as the argument says, and then checks that they work. By hand it shrinks groups
// and closes the old ones at once; else one call does it.
func survive(p *process, g *pg.Group, arg string) error {
	text, byHand := strings.CutSuffix(arg, " by hand")
	left, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	call := calls["small all_reduce"]
	if err := errors.Join(call(g)(ctx), p.tell("ready", "", nil)); err != nil {
		return err
	}
	for g.Size() > left {
		var err error
		for reduce := call(g); err == nil; {
			err = reduce(ctx)
		}
		if !errors.Is(err, colligo.ErrPeerLost) {
			return fmt.Errorf("the group ended with %w", err)
		}
		old := g
		if !byHand {
			g, err = pg.Regroup(ctx, old)
		} else if g, err = old.Shrink(ctx); err == nil {
			err = old.Close()
		}
		if err != nil {
			return errors.Join(err, old.Close())
		}
	}
	if err := errors.Join(g.Barrier(ctx), p.tell("smaller", fmt.Sprint(g.Ranks()), nil)); err != nil {
		return err
	}
	return errors.Join(checkAll(g), g.Close())
}

// survivals are the ways in which a job loses ranks: how many, and how far apart.
var survivals = []struct {
	name  string
	lost  int
	apart time.Duration // at most, between two
}{{"one", 1, 0}, {"two at once", 2, 0}, {"one after the other", 2, 60 * time.Millisecond}}

// TestShrinkSoak kills ranks at random moments. All others form a group without them, close the old one, and meet in a barrier.
// -pg.soak says how many jobs of each kind it runs.
func TestShrinkSoak(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp"} {
		for _, size := range []int{4, 8} {
			for _, s := range survivals {
				t.Run(fmt.Sprintf("transport=%s/size=%d/lost=%s", transport, size, strings.ReplaceAll(s.name, " ", "_")), func(t *testing.T) {
					t.Parallel()
					needs(t, transport)
					for range *soakRuns {
						soak(t, transport, size, s.lost, s.apart)
					}
				})
			}
		}
	}
}

// soak is one job that loses ranks. In half of the jobs a launcher serves the store, and any rank may be lost.
func soak(t *testing.T, transport string, size, lost int, apart time.Duration) {
	victims := rand.Perm(size)[:lost]
	o := order{Role: "survive", Arg: strconv.Itoa(size-lost) + [2]string{"", " by hand"}[rand.IntN(2)], Config: config{Transport: transport, Timeout: patience}}
	if rand.IntN(2) == 0 || min(victims[0], victims[lost-1]) == 0 {
		o.Config.StoreAt = serve(t).Addr().String()
	}
	job := launch(t, size, o, nil)
	defer job.kill()
	job.all("init")
	job.all("ready")
	time.Sleep(rand.N(30 * time.Millisecond))
	killed := time.Now()
	left := map[int]*rankProcess{}
	for rank, p := range job.procs {
		left[rank] = p
	}
	for i, victim := range victims {
		if i > 0 && apart > 0 {
			time.Sleep(rand.N(apart))
		}
		require.NoError(t, left[victim].cmd.Process.Kill())
		delete(left, victim)
	}
	for rank, p := range left {
		r := p.next("smaller")
		require.Empty(t, r.Err, "rank %d, lost %v", rank, victims)
		require.Less(t, r.When.Sub(killed), soon())
	}
	for _, p := range left {
		require.Empty(t, p.next("done").Err)
		p.ends()
	}
	job.tidy()
}

// kill ends processes that still run, before the test's end.
func (j *job) kill() {
	for _, p := range j.procs {
		p.cmd.Process.Kill()
	}
}
