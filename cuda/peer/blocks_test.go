package peer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// blocks checks coalescing blocks and batches of messages of n elements, and a barrier behind them.
func (r *rank) blocks(n int, async bool) error {
	d, size, me := colligo.Float32, r.g.Size(), r.g.Rank()
	next, prev := (me+1)%size, (me+size-1)%size
	a, b := r.tensor(0, d, 0, n), r.tensor(0, d, n+2*margin/4, n)
	c, e := r.tensor(1, d, 0, n), r.tensor(1, d, n+2*margin/4, n)
	own, theirs, roots := values(d, colligo.KindSum, me, n), values(d, colligo.KindSum, prev, n), values(d, colligo.KindSum, size-1, n)
	sum, err := reduced(d, colligo.Sum, size, n)
	if err != nil {
		return err
	}
	for _, x := range []colligo.Tensor{a, b, c, e} {
		if err := r.put(x, own); err != nil {
			return err
		}
	}
	fill := func(batch *pg.Batch) error {
		batch.AllReduce(a, colligo.Sum)
		batch.Broadcast(b, size-1)
		batch.Send(c, next, 0)
		batch.Recv(e, prev, 0)
		return nil
	}
	if async {
		err = r.g.CoalesceAsync(r.ctx, fill).Wait(r.ctx)
	} else {
		err = r.g.Coalesce(r.ctx, fill)
	}
	what := fmt.Sprintf("block of %d async %v", n, async)
	if err := first(err, r.expect(what, a, sum), r.expect(what, b, roots), r.expect(what, c, own), r.expect(what, e, theirs)); err != nil {
		return err
	}
	works, err := pg.BatchIsendIrecv(r.ctx, []pg.P2P{{Op: pg.Isend, Tensor: b, Peer: next, Group: r.g},
		{Op: pg.Irecv, Tensor: a, Peer: prev, Group: r.g}})
	if err != nil {
		return err
	}
	for _, w := range works {
		err = first(err, w.Wait(r.ctx))
	}
	return first(err, r.g.BarrierOn(r.ctx, a.Device()), r.expect(what, a, roots))
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 3} {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			onSim(t, size, small(Packets), func(r *rank) error {
				for i, n := range []int{1, 1000, 5000, 64} {
					if err := r.blocks(n, i%2 == 1); err != nil {
						return err
					}
				}
				all, err := pg.AllGatherObject(r.ctx, r.g, pg.JSON, fmt.Sprint("rank ", r.g.Rank()))
				if err == nil {
					require.Len(t, all, size)
				}
				return err
			})
		})
	}
}
