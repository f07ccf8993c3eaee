package pg_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport/sim"
)

// TestHashedName holds names against c10d's of PyTorch 2.11.
func TestHashedName(t *testing.T) {
	for _, c := range []struct {
		ranks []int
		n     int
		want  string
	}{
		{[]int{0, 1}, 1, "4a2ad14e7181d5235b64cf37fcd715cb5ce5c8e7"},
		{[]int{0, 1}, 2, "ad56679d2c95f00a464e146ac76c2deb475d8262"},
		{[]int{2, 3}, 1, "6e7899d9623621152b2e3412f6ec3840df279335"},
	} {
		require.Equal(t, c.want, pg.HashedName(c.ranks, c.n), "%v in %d groups", c.ranks, c.n)
	}
}

// TestLocalSync makes groups that only their members know of: others make other groups meanwhile, or none, and two of the
// same ranks are two groups.
func TestLocalSync(t *testing.T) {
	for _, transport := range []string{"sim", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			pgtest.RunWith(t, 4, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
				ctx, o := t.Context(), pg.GroupOptions{LocalSync: true, Desc: "local"}
				if g.Rank() == 3 {
					n, err := g.NewGroupWith(ctx, []int{0, 1}, o)
					require.NoError(t, err)
					require.False(t, n.IsMember())
					require.ErrorIs(t, n.Barrier(ctx), pg.ErrNotMember)
					return // at once, and without the others
				}
				var made []*pg.Group
				for _, ranks := range [][]int{{1, 0}, {0, 2}, {0, 1}, {2, 1}} {
					if !slices.Contains(ranks, g.Rank()) {
						continue
					}
					n, err := g.NewGroupWith(ctx, ranks, o)
					require.NoError(t, err)
					sumWithin(t, g, n)
					made = append(made, n)
				}
				require.Equal(t, "local", made[0].Desc())
				if g.Rank() == 0 {
					require.Equal(t, "0/"+pg.HashedName([]int{0, 1}, 1), made[0].Name())
					require.Equal(t, "0/"+pg.HashedName([]int{0, 2}, 1), made[1].Name())
					require.Equal(t, "0/"+pg.HashedName([]int{0, 1}, 2), made[2].Name())
				}
				for _, n := range made {
					sumWithin(t, g, n)
				}
			})
		})
	}
}

// TestGroupOptions says what the options do, and what is handed on.
func TestGroupOptions(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		ctx := t.Context()
		require.Equal(t, "default_pg", g.Desc())
		require.Empty(t, g.Tag())
		require.NoError(t, g.SetTimeout(time.Hour))
		plain, err := g.NewGroup(ctx, []int{0, 1, 2})
		require.NoError(t, err)
		require.Equal(t, "undefined", plain.Desc())
		require.Equal(t, time.Hour, plain.Timeout())
		n, err := plain.NewGroupWith(ctx, []int{2, 1}, pg.GroupOptions{Timeout: time.Minute, Desc: "pairs", Tag: "t"})
		require.NoError(t, err)
		require.Equal(t, "pairs", n.Desc())
		require.Equal(t, "t", n.Tag())
		require.Equal(t, "0/1/1", n.Name())
		require.Equal(t, time.Minute, n.Timeout())
		require.Equal(t, []int{1, 2}, n.Ranks())
		if g.Rank() > 0 {
			require.Same(t, n, g.FindGroup("t", []int{2, 1}))
			require.Equal(t, []*pg.Group{g, plain, n}, n.Groups())
			require.Equal(t, fmt.Sprintf("group 0/1/1 (pairs): rank %d of 2, ranks [1 2], %s over sim, tag t", g.Rank()-1, g.BackendConfig()), n.Info().String())
		}
		require.Nil(t, g.FindGroup("t", []int{0, 1}))
		require.Nil(t, g.FindGroup("other", []int{1, 2}))
		_, err = g.NewGroupWith(ctx, []int{0}, pg.GroupOptions{Timeout: -1})
		require.ErrorContains(t, err, "pg: new group [0]: Timeout is -1ns")
		require.NoError(t, n.Close())
		require.Nil(t, g.FindGroup("t", []int{1, 2}))
	})
}

// TestRanks translates ranks both ways.
func TestRanks(t *testing.T) {
	pgtest.Run(t, 4, func(t *testing.T, g *pg.Group) {
		n, err := g.NewGroup(t.Context(), []int{3, 1})
		require.NoError(t, err)
		for rank, global := range []int{1, 3} {
			got, err := n.GlobalRank(rank)
			require.NoError(t, err)
			require.Equal(t, global, got)
			got, err = n.GroupRank(global)
			require.NoError(t, err)
			require.Equal(t, rank, got)
			require.True(t, n.Contains(global))
			same, err := g.GlobalRank(global)
			require.NoError(t, err)
			require.Equal(t, global, same)
		}
		for _, rank := range []int{-1, 2} {
			_, err := n.GlobalRank(rank)
			require.ErrorContains(t, err, fmt.Sprintf("pg: rank %d of group 0/1, which has 2 ranks", rank))
		}
		for _, global := range []int{-1, 0, 4} {
			_, err := n.GroupRank(global)
			require.EqualError(t, err, fmt.Sprintf("pg: rank %d of the default group is not in group 0/1", global))
			require.False(t, n.Contains(global))
		}
		require.Equal(t, g.Rank()%2 == 1, n.IsMember())
	})
}

// TestUID is one number on all ranks, and another for each group.
func TestUID(t *testing.T) {
	var seen sync.Map
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		groups := []*pg.Group{g}
		for range 3 {
			n, err := g.NewGroup(t.Context(), []int{0, 2})
			require.NoError(t, err)
			groups = append(groups, n)
		}
		for i, n := range groups {
			was, _ := seen.LoadOrStore(i, n.UID())
			require.Equal(t, was, n.UID())
			for j := range i {
				require.NotEqual(t, groups[j].UID(), n.UID())
			}
		}
	})
}

// TestDifferentLists has ranks mean groups of other ranks, as many or more. All hear of it, also ranks that are outside by their own list.
func TestDifferentLists(t *testing.T) {
	for _, transport := range []string{"sim", "shm", "tcp"} {
		for name, lists := range map[string][3][]int{"as many": {{0, 2}, {0, 1}, {0, 1}}, "more": {{0, 1, 2}, {0, 1}, {0, 1}}} {
			t.Run(fmt.Sprintf("transport=%s/%s", transport, strings.ReplaceAll(name, " ", "_")), func(t *testing.T) {
				needs(t, transport)
				o := pgtest.Options{Transport: transport, Config: func(_ int, c *pg.Config) { c.ConnectTimeout = time.Minute }}
				pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
					here, there := lists[g.Rank()], 0
					if g.Rank() == 0 {
						there = 1
					}
					start := time.Now()
					_, err := g.NewGroup(t.Context(), here)
					require.ErrorIs(t, err, colligo.ErrMismatch)
					says := fmt.Sprintf("rank %d says the group is of ranks %v, here it is of %v", there, lists[there], here)
					if len(here) != len(lists[there]) {
						says = fmt.Sprintf("rank %d says the group has %d ranks, %v, here it has %d, %v", there, len(lists[there]), lists[there], len(here), here)
					}
					require.ErrorContains(t, err, says)
					require.Less(t, time.Since(start), time.Minute/2)
					within(t, g, []int{0, 1, 2})
				})
			})
		}
	}
}

// TestDifferentNumbers has ranks make different numbers of groups. All hear of it, and agree on the name of the next group.
func TestDifferentNumbers(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		var err error
		if g.Rank() == 0 {
			_, _, err = g.NewSubgroups(t.Context(), 1, pg.GroupOptions{})
		} else {
			_, err = g.NewGroup(t.Context(), []int{0, 1})
		}
		require.ErrorIs(t, err, colligo.ErrMismatch)
		within(t, g, []int{0, 1, 2})
	})
}

// TestKeysOfGroups leaves nothing in the store of groups that are there, or were, but for the default group's own.
func TestKeysOfGroups(t *testing.T) {
	for _, transport := range []string{"sim", "shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			s := store.NewHash()
			o := pgtest.Options{Transport: transport, RealTime: true, Config: func(_ int, c *pg.Config) { c.Store, c.InitBarrier = s, pg.On }}
			pgtest.RunWith(t, 4, o, func(t *testing.T, g *pg.Group) {
				before := keysOf(t, g, s)
				_, all, err := g.NewSubgroups(t.Context(), 2, pg.GroupOptions{})
				require.NoError(t, err)
				within(t, g, []int{0, 1, 3})
				_, err = g.NewGroupWith(t.Context(), []int{g.Rank() / 2 * 2, g.Rank()/2*2 + 1}, pg.GroupOptions{LocalSync: true})
				require.NoError(t, err)
				require.Equal(t, before, keysOf(t, g, s))
				require.NoError(t, all[0].Close())
			})
			keys, err := s.ListKeys(t.Context())
			require.NoError(t, err)
			require.Empty(t, keys)
		})
	}
}

// keysOf lists the store while all ranks wait.
func keysOf(t *testing.T, g *pg.Group, s store.Store) []string {
	require.NoError(t, g.Barrier(t.Context()))
	keys, err := s.ListKeys(t.Context())
	require.NoError(t, err)
	require.NoError(t, g.Barrier(t.Context()))
	return keys
}

// TestInitAgain has a rank fail to join, and then join at its second attempt.
func TestInitAgain(t *testing.T) {
	t.Parallel()
	s := store.NewHash()
	config := pg.Config{Store: s, Size: 2, Transport: "tcp", ConnectTimeout: 2 * time.Second}
	_, err := pg.Init(t.Context(), config)
	require.ErrorContains(t, err, "rank 1 has not come to group 0")
	config.ConnectTimeout = patience
	var both sync.WaitGroup
	for rank := range 2 {
		c := config
		c.Rank = rank
		both.Go(func() {
			g, err := pg.Init(t.Context(), c)
			if err == nil {
				err = errors.Join(g.Barrier(t.Context()), g.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	keys, err := s.ListKeys(t.Context())
	require.NoError(t, err)
	require.Empty(t, keys)
}

// TestGaveUp has a rank find that another has given up, and why.
func TestGaveUp(t *testing.T) {
	t.Parallel()
	s := store.NewHash()
	config := pg.Config{Store: s, Size: 3, Transport: "tcp", ConnectTimeout: 2 * time.Second}
	_, err := pg.Init(t.Context(), config)
	require.ErrorContains(t, err, "ranks 1-2 have not come to group 0")
	config.ConnectTimeout, config.Rank = patience, 1
	start := time.Now()
	_, err = pg.Init(t.Context(), config)
	require.ErrorContains(t, err, "has given up: ranks 1-2 have not come to group 0")
	require.Less(t, time.Since(start), soon())
}

// TestCloseAll closes what an Init has led to, in whatever state it is.
func TestCloseAll(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"sim", "shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			pgtest.RunWith(t, 3, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
				var groups []*pg.Group
				for _, ranks := range [][]int{{0, 1, 2}, {1, 2}, {0, 1}, {0}} {
					groups = append(groups, within(t, g, ranks))
				}
				pending := groups[0].RecvAnyAsync(t.Context(), colligo.Of(make([]float32, 1)), 0)
				require.NoError(t, g.Barrier(t.Context()))
				require.NoError(t, groups[2].Close())
				from := groups[g.Rank()] // any will do
				closed := from.CloseAll()
				require.NoError(t, g.CloseAll())
				err := pending.Wait(t.Context())
				if closed != nil { // else a peer's goodbye had ended the receive before
					requireNamed(t, groups[0], closed, "recv #1")
				} else {
					require.ErrorIs(t, err, colligo.ErrPeerLost)
				}
				require.True(t, errors.Is(err, colligo.ErrClosed) || errors.Is(err, colligo.ErrPeerLost), err)
				for _, n := range append(groups, g) {
					if n.IsMember() {
						require.Error(t, n.Barrier(t.Context()))
					}
					require.NoError(t, n.Close())
				}
				require.Empty(t, g.Groups())
			})
		})
	}
}

// TestInitBarrier lets ranks meet through the store, and tells how many have come when they do not.
func TestInitBarrier(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.InitBarrier, c.ConnectTimeout = pg.On, 10*time.Second }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		within(t, g, []int{1, 2})
		require.False(t, slices.ContainsFunc(keysOf(t, g, g.Store()), func(k string) bool { return strings.Contains(k, "store_based_barrier") }))
		if g.Rank() == 0 {
			n, err := g.Store().Add(t.Context(), "store_based_barrier_key:0/2", -1) // one goes missing
			require.NoError(t, err)
			require.Equal(t, int64(-1), n)
		}
		require.NoError(t, g.Barrier(t.Context()))
		_, err := g.NewGroup(t.Context(), []int{0, 2})
		require.ErrorContains(t, err, "pg: new group [0 2]: 0/2: barrier in the store: ")
		require.ErrorContains(t, err, "2 of 3 ranks have come")
	})
}

// arrivals counts the ranks of this process that have come to a point.
type arrivals struct{ n atomic.Int32 }

// await returns when so many have come, or after a minute if one has failed the test before.
func (a *arrivals) await(ranks int32) {
	for limit := time.Now().Add(time.Minute); a.n.Load() < ranks && time.Now().Before(limit); time.Sleep(time.Millisecond) {
	}
}

// TestCloseAllAfterDeath closes everything when a rank has died, and leaves nothing of it in the store.
func TestCloseAllAfterDeath(t *testing.T) {
	s := store.NewHash()
	var net *sim.Net
	var through arrivals
	o := pgtest.Options{RealTime: true, Net: func(n *sim.Net) { net = n }, Config: func(_ int, c *pg.Config) { c.Store = s }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		for range 5 {
			within(t, g, []int{0, 1, 2})
		}
		require.NoError(t, g.Barrier(t.Context()))
		through.n.Add(1)
		through.await(3) // a death may end the barrier of a rank that has yet to see it completed
		if g.Rank() == 2 {
			net.Kill(2)
			return
		}
		for g.AllReduce(t.Context(), colligo.Of([]float32{1}), colligo.Sum) == nil {
		}
		start := time.Now()
		require.NoError(t, g.CloseAll())
		require.Less(t, time.Since(start), soon())
		require.Empty(t, g.Groups())
	})
	keys, err := s.ListKeys(t.Context())
	require.NoError(t, err)
	require.Empty(t, keys)
}

// TestKeysOfFailedGroups leaves nothing in the store of groups that did not form.
func TestKeysOfFailedGroups(t *testing.T) {
	s := store.NewHash()
	o := pgtest.Options{RealTime: true, Config: func(_ int, c *pg.Config) { c.Store = s }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		local := pg.GroupOptions{LocalSync: true, ConnectTimeout: 100 * time.Millisecond}
		if g.Rank() < 2 {
			_, err := g.NewGroupWith(t.Context(), []int{0, 1, 2}, local)
			require.ErrorContains(t, err, "pg: new group [0 1 2]: 0/")
		}
		require.NoError(t, g.Barrier(t.Context()), "a group of LocalSync that does not form is no affair of its parent")
	})
	keys, err := s.ListKeys(t.Context())
	require.NoError(t, err)
	require.Empty(t, keys)
}
