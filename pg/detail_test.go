package pg_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
	"github.com/colligo-go/colligo/pg/pgtest"
)

var detailed = pgtest.Options{Config: func(_ int, c *pg.Config) { c.Debug.Level, c.Timeout = pg.DebugDetail, 10*time.Second }}

func zeros[E colligo.Element](shape ...int) colligo.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return colligo.Of(make([]E, n), shape...)
}

// TestDetail has ranks call different things at debug level DETAIL: every rank's error names all sides and what differs.
func TestDetail(t *testing.T) {
	type call = func(ctx context.Context, g *pg.Group) *pg.Work
	reduce := func(x func() colligo.Tensor, op colligo.ReduceOp) call {
		return func(ctx context.Context, g *pg.Group) *pg.Work { return g.AllReduceAsync(ctx, x(), op) }
	}
	usual := reduce(func() colligo.Tensor { return zeros[float32](2, 3) }, colligo.Sum)
	broadcast := func(root int) call {
		return func(ctx context.Context, g *pg.Group) *pg.Work {
			return g.BroadcastAsync(ctx, zeros[float32](2, 3), root)
		}
	}
	for says, by := range map[string][4]call{
		"ranks differ in collective: ranks 0, 2 all_reduce, ranks 1, 3 broadcast [rank ":                             {usual, broadcast(0), usual, broadcast(0)},
		"ranks differ in shape: ranks 0-2 [2 3], rank 3 [3 2]":                                                       {usual, usual, usual, reduce(func() colligo.Tensor { return zeros[float32](3, 2) }, colligo.Sum)},
		"ranks differ in shape: ranks 0-2 [2 3], rank 3 [7]":                                                         {usual, usual, usual, reduce(func() colligo.Tensor { return zeros[float32](7) }, colligo.Sum)},
		"ranks differ in element type: ranks 0, 2-3 float32, rank 1 int32":                                           {usual, reduce(func() colligo.Tensor { return zeros[int32](2, 3) }, colligo.Sum), usual, usual},
		"ranks differ in reduction: ranks 0, 2-3 sum, rank 1 max":                                                    {usual, reduce(func() colligo.Tensor { return zeros[float32](2, 3) }, colligo.Max), usual, usual},
		"ranks differ in root: ranks 0, 2-3 1, rank 1 2":                                                             {broadcast(1), broadcast(2), broadcast(1), broadcast(1)},
		"ranks differ in collective: ranks 0-2 all_reduce, rank 3 barrier; number of tensors: ranks 0-2 1, rank 3 0": {usual, usual, usual, func(ctx context.Context, g *pg.Group) *pg.Work { return g.BarrierAsync(ctx) }},
	} {
		t.Run(says, func(t *testing.T) {
			pgtest.RunWith(t, 4, detailed, func(t *testing.T, g *pg.Group) {
				start := time.Now()
				err := by[g.Rank()](t.Context(), g).Wait(t.Context())
				require.ErrorIs(t, err, colligo.ErrMismatch)
				require.ErrorContains(t, err, says)
				require.Less(t, time.Since(start), time.Second, "long before any timeout")
			})
		})
	}
}

// TestDetailAgrees runs everything that ranks may call alike, blocking and not.
func TestDetailAgrees(t *testing.T) {
	pgtest.RunWith(t, 3, detailed, func(t *testing.T, g *pg.Group) {
		ctx := t.Context()
		for range 3 {
			require.NoError(t, checkAll(g))
			in, outs, ins := colligo.Of(filled(g.Rank(), 5, 0)), []colligo.Tensor(nil), []colligo.Tensor(nil)
			if g.Rank() == 1 {
				outs, ins = tensors(parts(3, 5)), tensors(parts(3, 5))
			}
			require.NoError(t, g.Gather(ctx, outs, in, 1))
			require.NoError(t, g.Scatter(ctx, zeros[float32](5), ins, 1))
			require.NoError(t, g.AllGatherIntoTensor(ctx, zeros[float32](15), in))
			require.NoError(t, g.AllToAllSingle(ctx, zeros[float32](6), zeros[float32](6), nil, nil))
			var works []*pg.Work
			for range 10 {
				works = append(works, g.AllReduceAsync(ctx, zeros[float32](9), colligo.Sum))
			}
			for _, w := range works {
				require.NoError(t, w.Wait(ctx))
			}
		}
	})
}

// TestDetailMissing has a rank that does not come; the check is a barrier that names it.
func TestDetailMissing(t *testing.T) {
	pgtest.RunWith(t, 3, detailed, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
			return
		}
		err := g.Broadcast(t.Context(), zeros[float32](4), 0) // of which the root alone would not notice
		require.ErrorIs(t, err, colligo.ErrTimeout)
		require.ErrorContains(t, err, "rank 1 has not entered after 10s; ranks 0, 2 wait; rank 1 has nothing pending")
	})
}

// TestDetailOnOneRank refuses a level that not all ranks have.
func TestDetailOnOneRank(t *testing.T) {
	o := pgtest.Options{
		Config: func(rank int, c *pg.Config) {
			if rank == 1 {
				c.Debug.Level = pg.DebugDetail
			}
		},
		InitError: func(t *testing.T, rank int, err error) {
			require.ErrorContains(t, err, "debug level")
		},
	}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) { t.Error("the group has formed") })
}

// TestDetailOfBlock has ranks put other tensors into a block, of the same length together, and says which.
func TestDetailOfBlock(t *testing.T) {
	block := func(lengths ...int) func(b *pg.Batch) error {
		return func(b *pg.Batch) error {
			for _, n := range lengths {
				b.AllReduce(zeros[float32](n), colligo.Sum)
			}
			return nil
		}
	}
	many, other := make([]int, 600), make([]int, 600)
	for i := range many {
		many[i], other[i] = 1, 1
	}
	other[598], other[599] = 2, 0 // where the shapes are no longer printed
	for says, by := range map[string][2]func(b *pg.Batch) error{
		"":                                      {block(2, 3), block(2, 3)},
		"number of tensors: rank 0 2, rank 1 3": {block(3, 3), block(2, 2, 2)},
		"number of tensors: rank 0 1, rank 1 2": {block(4), block(2, 2)},
		"differ in shape: rank 0 [2] [4], rank 1 ": {block(2, 4), block(4, 2)},
		"differ in shape: rank 0 [1] [1] [1] [1] ": {block(many...), block(other...)},
	} {
		t.Run(says, func(t *testing.T) {
			pgtest.RunWith(t, 2, detailed, func(t *testing.T, g *pg.Group) {
				err := g.Coalesce(t.Context(), by[g.Rank()])
				if says == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, colligo.ErrMismatch)
				require.ErrorContains(t, err, says)
			})
		})
	}
}

// TestDetailAgreesOnBlocks runs the coalesced forms, in which tensors share plans.
func TestDetailAgreesOnBlocks(t *testing.T) {
	for name, check := range coalesced {
		t.Run("form="+name, func(t *testing.T) {
			pgtest.RunWith(t, 3, detailed, func(t *testing.T, g *pg.Group) { check(t, g, lengthsOf(10)) })
		})
	}
}

// TestDetailAgreesOnGroups makes groups while operations of the parent are pending, and works in them.
func TestDetailAgreesOnGroups(t *testing.T) {
	pgtest.RunWith(t, 4, detailed, func(t *testing.T, g *pg.Group) {
		pending := g.AllReduceAsync(t.Context(), zeros[float32](100_000), colligo.Sum)
		even, err := g.SplitByColor(t.Context(), g.Rank()%2, 0, pg.GroupOptions{})
		require.NoError(t, err)
		all, err := g.NewGroup(t.Context(), []int{0, 1, 2, 3})
		require.NoError(t, err)
		require.NoError(t, checkAll(even))
		block := all.CoalesceAsync(t.Context(), func(b *pg.Batch) error {
			b.AllReduce(zeros[float32](2), colligo.Sum)
			b.Broadcast(zeros[int64](3), 1)
			if all.Rank() < 2 {
				b.Send(zeros[int8](2), all.Rank()+2, 0)
			} else {
				b.Recv(zeros[int8](2), all.Rank()-2, 0)
			}
			return nil
		})
		names, err := object.AllGather(t.Context(), all, object.JSON, all.Rank())
		require.NoError(t, err)
		require.Equal(t, []int{0, 1, 2, 3}, names)
		require.NoError(t, block.Wait(t.Context()))
		require.NoError(t, all.MonitoredBarrier(t.Context(), 0, true))
		require.NoError(t, pending.Wait(t.Context()))
		if g.Rank() != 3 {
			n, err := all.Shrink(t.Context(), 3)
			require.NoError(t, err)
			require.NoError(t, checkAll(n))
		}
	})
}
