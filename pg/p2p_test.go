package pg_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestBatchIsendIrecv exchanges with every peer at once, in messages beyond any credit. It is the first call of the group,
// and later comes beside a collective. Ranks outside the exchange take no part.
func TestBatchIsendIrecv(t *testing.T) {
	const n = 200_000
	for _, transport := range []string{"sim", "shm"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			pgtest.RunWith(t, 4, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
				me := g.Rank()
				for turn := range 3 {
					var lines []pg.P2P
					got := parts(3, n)
					for peer := range 3 {
						if me < 3 && peer != me {
							lines = append(lines, pg.P2P{Op: pg.Isend, Tensor: colligo.Of(filled(me, n, peer)), Peer: peer, Tag: turn, Group: g},
								pg.P2P{Op: pg.Irecv, Tensor: colligo.Of(got[peer]), Peer: peer, Tag: turn, Group: g})
						}
					}
					if me < 3 {
						works, err := pg.BatchIsendIrecv(t.Context(), lines)
						require.NoError(t, err)
						require.Len(t, works, len(lines))
						for _, w := range works {
							require.NoError(t, w.Wait(t.Context()))
						}
						for peer := range 3 {
							if peer != me {
								equal(t, filled(peer, n, me), got[peer])
							}
						}
					}
					x := filled(me, 9, 0)
					require.NoError(t, g.AllReduce(t.Context(), colligo.Of(x), colligo.Sum))
					equal(t, sum(4, 9, 0), x)
				}
			})
		})
	}
}

// TestBatchIsendIrecvRefuses starts nothing when a line is wrong.
func TestBatchIsendIrecvRefuses(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		other, err := g.NewGroup(t.Context(), []int{0, 1})
		require.NoError(t, err)
		x, peer := colligo.Of(make([]float32, 10)), 1-g.Rank()
		line := func(op pg.P2POp, t colligo.Tensor) pg.P2P {
			return pg.P2P{Op: op, Tensor: t, Peer: peer, Group: g}
		}
		good := line(pg.Isend, x)
		for says, lines := range map[string][]pg.P2P{
			"the list is empty":                       nil,
			"line 1 of 2 is neither Isend nor Irecv":  {good, line(0, x)},
			"line 0 of 1 has no group":                {{Op: pg.Isend, Tensor: x, Peer: peer}},
			"line 1 of 2 is of group 0/1, the first ": {good, {Op: pg.Isend, Tensor: x, Peer: peer, Group: other}},
			"peer 2 of a group of 2 ranks":            {good, {Op: pg.Isend, Tensor: x, Peer: 2, Group: g}},
			"is this rank itself: both ends":          {{Op: pg.Irecv, Tensor: x, Peer: g.Rank(), Group: g}},
			"invalid tensor":                          {{Op: pg.Irecv, Peer: peer, Group: g}},
			"tensors on cpu and cuda:0 in one block": {good, line(pg.Isend,
				colligo.OnDevice(colligo.Device{Kind: colligo.CUDA}, 4096, 1, colligo.Float32))},
			"lines 0 and 1 share memory": {good, line(pg.Irecv, x)},
			"lines 1 and 3 share memory": {line(pg.Irecv, x.Slice(5, 6)), line(pg.Isend, x.Slice(0, 4)), line(pg.Isend, x.Slice(1, 2)),
				line(pg.Irecv, x.Slice(3, 5))},
		} {
			works, err := pg.BatchIsendIrecv(t.Context(), lines)
			require.ErrorContains(t, err, says)
			require.Nil(t, works)
		}
		matrix := make([]float32, 20)
		even, odd := strided(matrix), colligo.Of(matrix).Strided(1, []int{10}, []int{2})
		works, err := pg.BatchIsendIrecv(t.Context(), []pg.P2P{line(pg.Irecv, even), line(pg.Irecv, odd), good, good})
		require.NoError(t, err, "columns of a matrix lie between one another; what is only read may be sent twice")
		for _, w := range works {
			require.NoError(t, w.Wait(t.Context()))
		}
		require.NoError(t, other.Close())
	})
}

// TestBatchIsendIrecvTimeout ends every Work of a batch whose peer never sends.
func TestBatchIsendIrecvTimeout(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Timeout = 5 * time.Second }}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
			return
		}
		works, err := pg.BatchIsendIrecv(t.Context(), []pg.P2P{
			{Op: pg.Isend, Tensor: colligo.Of([]float32{1}), Peer: 1, Group: g},
			{Op: pg.Irecv, Tensor: colligo.Of([]float32{1}), Peer: 1, Group: g}})
		require.NoError(t, err)
		require.NoError(t, works[0].Wait(t.Context()), "the links take it")
		require.ErrorIs(t, works[1].Wait(t.Context()), colligo.ErrTimeout)
	})
}
