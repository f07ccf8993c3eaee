package pg_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestNewSubgroups cuts groups into equal parts.
func TestNewSubgroups(t *testing.T) {
	for _, transport := range []string{"sim", "shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			pgtest.RunWith(t, 6, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
				for _, size := range []int{1, 2, 3, 6} {
					mine, all, err := g.NewSubgroups(t.Context(), size, pg.GroupOptions{Desc: "part"})
					require.NoError(t, err)
					require.Len(t, all, 6/size)
					require.Same(t, all[g.Rank()/size], mine)
					require.Equal(t, size, mine.Size())
					require.Equal(t, g.Rank()%size, mine.Rank())
					require.Equal(t, "part", mine.Desc())
					for i, n := range all {
						require.True(t, n.Contains(i*size))
						sumWithin(t, g, n)
					}
				}
				for _, size := range []int{-1, 0, 4, 5, 7} {
					_, _, err := g.NewSubgroups(t.Context(), size, pg.GroupOptions{})
					require.ErrorContains(t, err, fmt.Sprintf("pg: subgroups of %d ranks: a group of 6 cannot be cut into them", size))
				}
			})
		})
	}
}

// TestNewSubgroupsByEnumeration makes groups of lists, which leave a rank out.
func TestNewSubgroupsByEnumeration(t *testing.T) {
	pgtest.Run(t, 5, func(t *testing.T, g *pg.Group) {
		mine, all, err := g.NewSubgroupsByEnumeration(t.Context(), [][]int{{4, 0}, {1}, {2}}, pg.GroupOptions{})
		require.NoError(t, err)
		require.Len(t, all, 3)
		require.Equal(t, []int{0, 4}, all[0].Ranks())
		for _, n := range all {
			sumWithin(t, g, n)
		}
		if g.Rank() == 3 {
			require.Nil(t, mine)
			require.ErrorIs(t, mine.Barrier(t.Context()), pg.ErrNotMember)
			require.NoError(t, mine.Close())
		} else {
			require.True(t, mine.Contains(g.Rank()))
		}
		for says, lists := range map[string][][]int{
			"no lists of ranks":                  nil,
			"rank 1 is in both [0 1] and [1 2]":  {{0, 1}, {1, 2}},
			"rank 5 of 5 is out of range":        {{0}, {5}},
			"rank 2 of 5 is out of range or nam": {{2, 2}},
			"no ranks":                           {{0}, {}},
		} {
			_, _, err := g.NewSubgroupsByEnumeration(t.Context(), lists, pg.GroupOptions{})
			require.ErrorContains(t, err, says)
		}
		within(t, g, []int{0, 1})
	})
}

// TestSplitGroup splits a group, a part of it, and names what comes out as c10d does.
func TestSplitGroup(t *testing.T) {
	pgtest.Run(t, 6, func(t *testing.T, g *pg.Group) {
		ctx := t.Context()
		half, err := g.SplitGroup(ctx, [][]int{{0, 1, 2}, {3, 4}}, pg.GroupOptions{})
		require.NoError(t, err)
		require.Equal(t, "default_pg:split:0", half.Desc())
		if g.Rank() == 5 {
			require.False(t, half.IsMember())
			require.Zero(t, half.Size())
			require.ErrorIs(t, half.Barrier(ctx), pg.ErrNotMember)
			_, err := half.SplitGroup(ctx, [][]int{{0}}, pg.GroupOptions{})
			require.ErrorIs(t, err, pg.ErrNotMember)
		} else {
			sumWithin(t, g, half)
			part, err := half.SplitGroup(ctx, [][]int{{1}, {0}}, pg.GroupOptions{Desc: "mine"})
			require.NoError(t, err)
			require.Equal(t, "mine", part.Desc())
			require.Equal(t, half.Rank() < 2, part.IsMember())
			if part.IsMember() {
				require.Equal(t, []int{g.Rank()}, part.Ranks())
				sumWithin(t, g, part)
			}
			again, err := half.SplitGroup(ctx, [][]int{{0, 1}}, pg.GroupOptions{})
			require.NoError(t, err)
			require.Equal(t, "default_pg:split:0:split:1", again.Desc())
		}
		_, err = g.SplitGroup(ctx, [][]int{{0, 1}, {1}}, pg.GroupOptions{})
		require.ErrorContains(t, err, "pg: split [[0 1] [1]]: rank 1 is in both")
	})
}

// TestSplitByColor lets each rank say where it belongs, and where in there.
func TestSplitByColor(t *testing.T) {
	pgtest.Run(t, 7, func(t *testing.T, g *pg.Group) {
		ctx := t.Context()
		color, key := g.Rank()%2, -g.Rank()
		if g.Rank() == 3 {
			color = pg.NoColor
		}
		if g.Rank() == 4 {
			key = 0 // before rank 0 it is not, for their keys are equal
		}
		n, err := g.SplitByColor(ctx, color, key, pg.GroupOptions{})
		require.NoError(t, err)
		switch {
		case g.Rank() == 3:
			require.False(t, n.IsMember())
		case color == 0:
			require.Equal(t, []int{6, 2, 0, 4}, n.Ranks())
		default:
			require.Equal(t, []int{5, 1}, n.Ranks())
		}
		if n.IsMember() {
			sumWithin(t, g, n)
			rank, err := n.GroupRank(g.Rank())
			require.NoError(t, err)
			require.Equal(t, n.Rank(), rank)
		}
		none, err := g.SplitByColor(ctx, pg.NoColor, 0, pg.GroupOptions{})
		require.NoError(t, err)
		require.Equal(t, colligo.NoRank, none.Rank())
		_, err = g.SplitByColor(ctx, -2, 0, pg.GroupOptions{})
		require.ErrorContains(t, err, "color -2")
	})
}
