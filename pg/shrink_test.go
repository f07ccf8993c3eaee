package pg_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport/sim"
)

// ruin works in a group until it fails.
func ruin(t *testing.T, g *pg.Group) {
	for {
		x := make([]float32, 100)
		if err := g.AllReduce(t.Context(), colligo.Of(x), colligo.Sum); err != nil {
			return
		}
	}
}

// lastsAs demands that a group has the given ranks of the default group, and works.
func lastsAs(t *testing.T, g, n *pg.Group, ranks ...int) {
	require.Equal(t, ranks, n.Ranks())
	sumWithin(t, g, n)
}

// TestShrink loses ranks one after the other, by death, and goes on with the others each time.
func TestShrink(t *testing.T) {
	for _, victims := range [][]int{{3}, {0}, {1, 4}, {4, 3, 2, 1}, {0, 1, 2, 3}} {
		t.Run(fmt.Sprint("victims=", victims), func(t *testing.T) {
			var net *sim.Net
			o := pgtest.Options{Net: func(n *sim.Net) { net = n }, Config: func(_ int, c *pg.Config) { c.Desc = "lasting" }}
			pgtest.RunWith(t, 5, o, func(t *testing.T, g *pg.Group) {
				left, now := []int{0, 1, 2, 3, 4}, g
				require.Zero(t, g.Epoch())
				for epoch, victim := range victims {
					if g.Rank() == victim {
						time.Sleep(time.Second)
						net.Kill(victim)
						return
					}
					ruin(t, now)
					start := time.Now()
					n, err := now.Shrink(t.Context())
					require.NoError(t, err)
					require.Less(t, time.Since(start), 10*time.Second)
					left = slices.DeleteFunc(left, func(r int) bool { return r == victim })
					lastsAs(t, g, n, left...)
					require.Equal(t, fmt.Sprintf("0@%d", epoch+1), n.Name())
					require.Equal(t, epoch+1, n.Epoch())
					require.Equal(t, "lasting", n.Desc())
					within2(t, n, []int{0}) // groups can be made of it
					now = n
				}
			})
		})
	}
}

// TestShrinkMany loses several ranks at a time.
func TestShrinkMany(t *testing.T) {
	var net *sim.Net
	pgtest.RunWith(t, 6, pgtest.Options{Net: func(n *sim.Net) { net = n }}, func(t *testing.T, g *pg.Group) {
		if g.Rank()%2 == 1 {
			time.Sleep(time.Second)
			net.Kill(g.Rank())
			return
		}
		ruin(t, g)
		n, err := g.Shrink(t.Context())
		require.NoError(t, err)
		lastsAs(t, g, n, 0, 2, 4)
	})
}

// TestShrinkExclude leaves out ranks that live, of a group that works, and of one that was shrunk before.
func TestShrinkExclude(t *testing.T) {
	for _, transport := range []string{"sim", "shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			pgtest.RunWith(t, 5, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
				half, err := g.NewGroup(t.Context(), []int{1, 2, 3, 4})
				require.NoError(t, err)
				if g.Rank() > 0 && g.Rank() != 3 {
					n, err := half.Shrink(t.Context(), 2)
					require.NoError(t, err)
					require.Equal(t, "0/1@1", n.Name())
					lastsAs(t, g, n, 1, 2, 4)
					if g.Rank() != 4 {
						two, err := n.Shrink(t.Context(), 2)
						require.NoError(t, err)
						require.Equal(t, "0/1@2", two.Name())
						lastsAs(t, g, two, 1, 2)
					}
				}
				for _, bad := range [][]int{{half.Rank()}, {4}, {-1}} {
					_, err := half.Shrink(t.Context(), bad...)
					require.Error(t, err)
				}
				require.NoError(t, g.Barrier(t.Context()), "the group works as before")
			})
		})
	}
}

// TestShrinkLate leaves a rank behind that neither comes nor dies, and tells it when it comes.
func TestShrinkLate(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.ConnectTimeout = 10 * time.Second }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(30 * time.Second)
			_, err := g.Shrink(t.Context())
			require.ErrorIs(t, err, pg.ErrNotMember)
			require.ErrorContains(t, err, "pg: shrink group 0 to 0@1: ranks [0 2] of the default group have gone on without this one")
			return
		}
		n, err := g.Shrink(t.Context())
		require.NoError(t, err)
		lastsAs(t, g, n, 0, 2)
		time.Sleep(time.Minute)
	})
}

// shrunkAway demands that nothing is left in the store of how groups were shrunk: a later job would take it for its own.
func shrunkAway(t *testing.T, s store.Store) {
	for epoch := range 3 {
		for _, key := range []string{"members", "here/0", "here/2", "here/3"} {
			there, err := s.Check(context.Background(), fmt.Sprintf("colligo/0@%d/%s", epoch+1, key))
			require.NoError(t, err)
			require.False(t, there, "%s of epoch %d", key, epoch+1)
		}
	}
}

// TestShrinkTwice loses one rank, and another at any moment while the smaller group forms.
func TestShrinkTwice(t *testing.T) {
	for after := range uint64(12) {
		t.Run(fmt.Sprint("frames=", after), func(t *testing.T) {
			var net *sim.Net
			var once sync.Once
			o := pgtest.Options{Net: func(n *sim.Net) { net = n }, Sim: sim.Config{MinDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond}}
			var kept store.Store
			o.Config = func(rank int, c *pg.Config) {
				if rank == 0 {
					kept = c.Store
				}
			}
			pgtest.RunWith(t, 4, o, func(t *testing.T, g *pg.Group) {
				if g.Rank() == 1 {
					time.Sleep(time.Second)
					net.Kill(1)
					return
				}
				ruin(t, g)
				if g.Rank() == 0 {
					t.Cleanup(func() { shrunkAway(t, kept) })
				}
				if g.Rank() == 2 {
					once.Do(func() { net.KillAfter(2, after) })
				}
				n, err := g.Shrink(t.Context())
				for g.Rank() != 2 && err == nil && len(n.Ranks()) > 2 {
					ruin(t, n)
					n, err = n.Shrink(t.Context())
				}
				if g.Rank() == 2 {
					return
				}
				require.NoError(t, err)
				lastsAs(t, g, n, 0, 3)
			})
		})
	}
}

// TestShrinkClosed refuses to shrink a group that this rank has left, though the store is there and the others would wait for it.
func TestShrinkClosed(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		require.NoError(t, g.Close())
		n, err := g.Shrink(t.Context())
		require.ErrorIs(t, err, colligo.ErrClosed)
		require.EqualError(t, err, "pg: shrink group 0: group closed")
		require.Nil(t, n)
	})
}

// TestShrinkWithoutStore tells that nothing can be done when the store is gone.
func TestShrinkWithoutStore(t *testing.T) {
	s := store.NewHash()
	o := pgtest.Options{RealTime: true, Config: func(_ int, c *pg.Config) { c.Store = s }}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		require.NoError(t, g.Barrier(t.Context()))
		require.NoError(t, s.Close())
		_, err := g.Shrink(t.Context(), 1-g.Rank())
		require.ErrorContains(t, err, "pg: shrink group 0 to 0@1: the store cannot be reached")
		require.ErrorIs(t, err, store.ErrClosed)
	})
}

// TestShrinkWrongMembers has the store hold members that cannot be: as nobody has of this group put them there.
func TestShrinkWrongMembers(t *testing.T) {
	for _, members := range []string{"[7]", "[0,0]", "[1,0]", "[-1,0,1]", "null", "{}"} {
		s := store.NewHash()
		require.NoError(t, s.Set(t.Context(), "colligo/0@1/members", []byte(members)))
		o := pgtest.Options{RealTime: true, Config: func(_ int, c *pg.Config) { c.Store = s }}
		pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
			_, err := g.Shrink(t.Context())
			require.ErrorContains(t, err, "pg: shrink group 0 to 0@1: ")
		})
	}
}
