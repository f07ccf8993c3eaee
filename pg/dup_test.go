package pg_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestDup has ranks sum in a group aside and in their own in orders that differ between the two.
func TestDup(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		ctx := t.Context()
		first, err := pg.DupForTest(ctx, g, time.Minute)
		require.NoError(t, err)
		second, err := pg.DupForTest(ctx, g, time.Minute)
		require.NoError(t, err)
		require.NotEqual(t, first.Name(), second.Name())
		require.Equal(t, g.Ranks(), first.Ranks())
		require.Equal(t, time.Minute, first.Timeout())
		require.Len(t, g.Groups(), 1)
		sum := func(g *pg.Group) ([]float32, *pg.Work) {
			x := []float32{float32(g.Rank())}
			return x, g.AllReduceAsync(ctx, colligo.Of(x), colligo.Sum)
		}
		orders := [][]*pg.Group{{g, first, second}, {second, first, g}, {first, g, second}}
		for _, of := range orders[g.Rank()] {
			x, w := sum(of)
			defer func() {
				require.NoError(t, w.Wait(ctx))
				require.Equal(t, []float32{3}, x)
			}()
		}
		named, err := g.NewGroup(ctx, []int{0, 1, 2})
		require.NoError(t, err)
		require.Equal(t, g.Name()+"/1", named.Name())
		for _, e := range g.Dump(flight.DumpOptions{Entries: true}).Entries {
			require.NotContains(t, e.Group, "dup")
		}
		require.NoError(t, g.Barrier(ctx))
	})
}

// TestPart has ranks sum among some of them, as the backend of a host's devices does.
func TestPart(t *testing.T) {
	pgtest.Run(t, 5, func(t *testing.T, g *pg.Group) {
		ctx := t.Context()
		odd, err := g.NewGroup(ctx, []int{4, 1, 2, 3, 0}) // of other numbers
		require.NoError(t, err)
		for range 2 {
			ranks := [][]int{{0, 2, 3}, {4, 1}}[map[bool]int{true: 1}[odd.Rank()%3 == 1]]
			part, err := pg.PartForTest(ctx, odd, ranks, time.Minute)
			require.NoError(t, err)
			require.Equal(t, len(ranks), part.Size())
			x, want := []float32{float32(odd.Rank())}, float32(0)
			for i, r := range ranks {
				want += float32(r)
				require.Equal(t, r == odd.Rank(), i == part.Rank())
			}
			require.NoError(t, part.AllReduce(ctx, colligo.Of(x), colligo.Sum))
			require.Equal(t, []float32{want}, x)
			require.NoError(t, part.Close())
		}
		_, err = pg.PartForTest(ctx, odd, []int{odd.Rank() ^ 1}, time.Minute)
		require.ErrorIs(t, err, pg.ErrNotMember)
		require.NoError(t, odd.Barrier(ctx))
	})
}

// TestDupFails ends a group aside: the other goes on, and closes in any order.
func TestDupFails(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		dup, err := pg.DupForTest(t.Context(), g, time.Minute)
		require.NoError(t, err)
		require.NoError(t, g.Barrier(t.Context()))
		if g.Rank() == 0 {
			pg.FailForTest(dup, errors.New("out of luck"))
		}
		require.ErrorContains(t, dup.Barrier(t.Context()), "out of luck")
		require.NoError(t, g.Barrier(t.Context()))
		require.NoError(t, g.Err())
		if g.Rank() == 1 {
			require.NoError(t, g.Close())
		}
		require.NoError(t, dup.Close())
	})
}

// TestDupOfTheFailed has a rank fail the group in place of coming to one aside; who waits there for it hears of that.
func TestDupOfTheFailed(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		start := time.Now()
		if g.Rank() == 1 {
			time.Sleep(time.Second)
			pg.FailForTest(g, errors.New("out of luck"))
		} else {
			_, err := pg.DupForTest(t.Context(), g, time.Minute)
			require.ErrorContains(t, err, "out of luck")
		}
		require.NoError(t, g.Close())
		require.Less(t, time.Since(start), 10*time.Second)
	})
}
