package pg_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport/sim"
)

// within makes a group and sums this rank's number in the default group over its members.
func within(t *testing.T, g *pg.Group, ranks []int) *pg.Group {
	t.Helper()
	n, err := g.NewGroup(t.Context(), ranks)
	require.NoError(t, err)
	require.Equal(t, len(ranks), n.Size())
	sumWithin(t, g, n)
	return n
}

func sumWithin(t *testing.T, g, n *pg.Group) {
	x := []int64{int64(g.Rank())}
	err := n.AllReduce(t.Context(), colligo.Of(x), colligo.Sum)
	if n.Rank() == colligo.NoRank {
		require.ErrorIs(t, err, pg.ErrNotMember)
		return
	}
	require.NoError(t, err)
	want := int64(0)
	for _, r := range n.Ranks() {
		want += int64(r)
	}
	require.Equal(t, want, x[0])
	require.Equal(t, g.Rank(), n.Ranks()[n.Rank()])
}

// TestOverlappingGroups makes groups that share ranks. It uses them by turns and at the same time, and closes them in an
// order of its own on each rank.
func TestOverlappingGroups(t *testing.T) {
	const size = 5
	for _, transport := range []string{"sim", "shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			var names sync.Map
			pgtest.RunWith(t, size, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
				var groups []*pg.Group
				for i, ranks := range [][]int{{0, 1, 2}, {2, 3, 4}, {4, 2, 0}, {3}, {0, 1, 2, 3, 4}, {1, 4}} {
					n := within(t, g, ranks)
					was, _ := names.LoadOrStore(i, n.Name())
					require.Equal(t, was, n.Name())
					groups = append(groups, n)
				}
				for range 3 {
					for _, n := range groups {
						sumWithin(t, g, n)
					}
				}
				var all sync.WaitGroup
				for _, n := range groups {
					all.Go(func() { sumWithin(t, g, n) })
				}
				all.Wait()
				groups = append(groups, g)
				require.NoError(t, g.Barrier(t.Context()))
				for i := range groups {
					require.NoError(t, groups[(i+3*g.Rank())%len(groups)].Close())
				}
			})
		})
	}
}

// TestNestedGroups makes groups of groups. Their making is no affair of ranks outside. So names stay the same on all ranks
// of a group, though these have made different numbers of groups.
func TestNestedGroups(t *testing.T) {
	pgtest.Run(t, 4, func(t *testing.T, g *pg.Group) {
		half := within(t, g, []int{0, 1})
		if half.Rank() != colligo.NoRank {
			one := within2(t, half, []int{1})
			two := within2(t, half, []int{0, 1})
			require.Equal(t, []int{0, 1}, two.Ranks())
			require.NotEqual(t, one.Name(), two.Name())
		} else {
			_, err := half.NewGroup(t.Context(), []int{0})
			require.ErrorIs(t, err, pg.ErrNotMember)
		}
		other := within(t, g, []int{1, 2, 3})
		if other.Rank() != colligo.NoRank {
			last := within2(t, other, []int{1, 2})
			require.Equal(t, []int{2, 3}, last.Ranks(), "ranks are those of the default group")
		}
		within(t, g, []int{3, 0})
	})
}

func within2(t *testing.T, g *pg.Group, ranks []int) *pg.Group {
	n, err := g.NewGroup(t.Context(), ranks)
	require.NoError(t, err)
	if n.Rank() != colligo.NoRank {
		require.NoError(t, n.Barrier(t.Context()))
	}
	return n
}

// TestNotMember calls everything on the handle of a rank outside.
func TestNotMember(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		n, err := g.NewGroup(t.Context(), []int{0, 2})
		require.NoError(t, err)
		if g.Rank() != 1 {
			require.NoError(t, n.Barrier(t.Context()))
			require.NoError(t, n.Close())
			return
		}
		require.Equal(t, colligo.NoRank, n.Rank())
		require.Equal(t, "none", n.Transport())
		ctx, x := t.Context(), colligo.Of([]float32{1, 2})
		two, half := []colligo.Tensor{x, x}, colligo.Of([]float32{1})
		for _, err := range []error{
			n.AllReduce(ctx, x, colligo.Sum), n.Broadcast(ctx, x, 0), n.Reduce(ctx, x, 1, colligo.Sum),
			n.AllGather(ctx, two, x), n.AllGatherIntoTensor(ctx, x, half), n.ReduceScatter(ctx, x, two, colligo.Sum),
			n.ReduceScatterTensor(ctx, half, x, colligo.Sum), n.AllToAll(ctx, two, two),
			n.AllToAllSingle(ctx, x, x, nil, nil), n.AllToAllSingle(ctx, x, x, []int{1, 1}, []int{2, 0}),
			n.Gather(ctx, nil, x, 0), n.GatherV(ctx, nil, x, []int{2, 2}, 0), n.Scatter(ctx, x, nil, 0),
			n.ScatterV(ctx, x, two, []int{2, 2}, 0), n.Send(ctx, x, 0, 0), n.Recv(ctx, x, 0, 0), n.Barrier(ctx),
			n.AllReduceAsync(ctx, x, colligo.Sum).Wait(ctx), n.RecvAnyAsync(ctx, x, 0).Wait(ctx),
		} {
			require.ErrorIs(t, err, pg.ErrNotMember)
		}
		require.NoError(t, n.Close())
		require.NoError(t, n.Close())
	})
}

// TestWrongRanks refuses lists of ranks on all ranks alike; the next group is made as if nothing had been.
func TestWrongRanks(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		for _, ranks := range [][]int{{}, {3}, {-1, 0}, {0, 1, 0}} {
			_, err := g.NewGroup(t.Context(), ranks)
			require.ErrorContains(t, err, fmt.Sprintf("pg: new group %v: ", ranks))
		}
		within(t, g, []int{2, 1})
		require.NoError(t, g.Close())
		_, err := g.NewGroup(t.Context(), []int{0, 1})
		require.ErrorIs(t, err, colligo.ErrClosed)
	})
}

// TestGroupOfAll makes a group of all ranks where no list is given.
func TestGroupOfAll(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		n, err := g.NewGroup(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, []int{0, 1, 2}, n.Ranks())
		require.Equal(t, g.Rank(), n.Rank())
		require.NoError(t, n.Barrier(t.Context()))
		require.NoError(t, n.Close())
	})
}

// TestMissingMember has a member not come to a new group.
func TestMissingMember(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.ConnectTimeout = 5 * time.Second }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 2 {
			time.Sleep(time.Minute)
			return
		}
		start, ranks := time.Now(), []int{0, 2}
		_, err := g.NewGroup(t.Context(), ranks)
		require.ErrorIs(t, err, colligo.ErrTimeout)
		require.ErrorContains(t, err, "rank 2 has not entered after 5s")
		require.Less(t, time.Since(start), 6*time.Second)
	})
}

// TestMissingLocally has a rank wait for another in a group that is its members' affair.
func TestMissingLocally(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.ConnectTimeout = 5 * time.Second }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 2 {
			time.Sleep(time.Minute)
			return
		}
		start := time.Now()
		_, err := g.NewGroupWith(t.Context(), []int{0, 2}, pg.GroupOptions{LocalSync: true})
		if g.Rank() == 0 {
			require.ErrorIs(t, err, colligo.ErrTimeout)
			require.ErrorContains(t, err, "rank 1 has not come to group 0/", "by its number there")
		}
		require.Less(t, time.Since(start), 6*time.Second)
	})
}

// TestUnequalLists has ranks mean groups of different sizes.
func TestUnequalLists(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.ConnectTimeout = 5 * time.Second }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		ranks := []int{0, 1, 2}
		if g.Rank() == 1 {
			ranks = []int{0, 1}
		}
		_, err := g.NewGroup(t.Context(), ranks)
		require.ErrorIs(t, err, colligo.ErrMismatch)
		require.ErrorContains(t, err, "says the group has")
		require.NoError(t, g.Barrier(t.Context()), "the group works as before")
	})
}

// TestManyGroups makes, uses and closes many groups; what they held is given back while the default group goes on.
func TestManyGroups(t *testing.T) {
	for _, c := range []struct {
		transport string
		groups    int
	}{{"sim", 1000}, {"shm", 200}, {"tcp", 60}} {
		t.Run("transport="+c.transport, func(t *testing.T) {
			needs(t, c.transport)
			pgtest.RunWith(t, 4, pgtest.Options{Transport: c.transport, RealTime: true}, func(t *testing.T, g *pg.Group) {
				var before held
				var memory uint64
				alone := func(look func()) { // on rank 0 while the others wait
					require.NoError(t, g.Barrier(t.Context()))
					if g.Rank() == 0 {
						look()
					}
					require.NoError(t, g.Barrier(t.Context()))
				}
				for i := range c.groups {
					if i == c.groups/10 {
						alone(func() { before, memory = holdings(), live() })
					}
					n, err := g.NewGroup(context.Background(), []int{0, 1, 2, 3})
					require.NoError(t, err)
					x := []int32{int32(i)}
					require.NoError(t, n.AllReduce(t.Context(), colligo.Of(x), colligo.Sum))
					require.Equal(t, int32(4*i), x[0])
					require.NoError(t, n.Close())
				}
				alone(func() {
					require.Empty(t, holdings().beyond(before))
					require.Less(t, live(), memory+4<<20, "nothing grows, but the flight recorder up to its capacity")
				})
			})
		})
	}
}

// TestRecorderForgetsGroups has dumps list no more closed groups than the recorder has operations, besides a few.
func TestRecorderForgetsGroups(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Recorder.Entries = 10 }}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		name := ""
		for range 300 {
			n, err := g.NewGroup(t.Context(), []int{0, 1})
			require.NoError(t, err)
			require.NoError(t, n.Barrier(t.Context()))
			require.NoError(t, n.Close())
			name = n.Name()
		}
		d := g.Dump(everything)
		require.LessOrEqual(t, len(d.Groups), 1+10+64+1)
		require.Equal(t, len(d.Groups), len(d.Status))
		require.Contains(t, d.Groups, "0")
		require.Contains(t, d.Groups, name)
		require.Len(t, d.Entries, 10)
		for _, e := range d.Entries {
			require.Contains(t, d.Groups, e.Group)
		}
	})
}

// live is the bytes of what this process's heap holds.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestDeadMember has a member of a new group die before it comes to it; the other does not wait for it until nobody can.
func TestDeadMember(t *testing.T) {
	var net *sim.Net
	o := pgtest.Options{Net: func(n *sim.Net) { net = n }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Second)
			net.Kill(1)
			return
		}
		start := time.Now()
		_, err := g.NewGroup(t.Context(), []int{0, 1})
		require.ErrorIs(t, err, colligo.ErrPeerLost)
		require.Less(t, time.Since(start), 10*time.Second)
	})
}
