package peer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
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
	if err := first(err,
		func() error { return r.expect(what, a, sum) },
		func() error { return r.expect(what, b, roots) },
		func() error { return r.expect(what, c, own) },
		func() error { return r.expect(what, e, theirs) }); err != nil {
		return err
	}
	works, err := pg.BatchIsendIrecv(r.ctx, []pg.P2P{{Op: pg.Isend, Tensor: b, Peer: next, Group: r.g},
		{Op: pg.Irecv, Tensor: a, Peer: prev, Group: r.g}})
	if err != nil {
		return err
	}
	for _, w := range works {
		err = first(err, func() error { return w.Wait(r.ctx) })
	}
	return first(err, func() error { return r.g.BarrierOn(r.ctx, a.Device()) }, func() error { return r.expect(what, a, roots) })
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 3} {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			onSim(t, size, small(LL), func(r *rank) error {
				for i, n := range []int{1, 1000, 5000, 64} {
					if err := r.blocks(n, i%2 == 1); err != nil {
						return err
					}
				}
				all, err := object.AllGather(r.ctx, r.g, object.JSON, fmt.Sprint("rank ", r.g.Rank()))
				if err == nil {
					require.Len(t, all, size)
				}
				return err
			})
		})
	}
}

// TestLongBlocks has ranks send long messages to one another in blocks, receives first and sends first. They go by kernels
// and by streams, also in graphs. Some blocks have more of them than an eager buffer has room for.
func TestLongBlocks(t *testing.T) {
	t.Parallel()
	for _, blocking := range []bool{false, true} {
		t.Run(fmt.Sprintf("blocking=%v", blocking), func(t *testing.T) {
			t.Parallel()
			d := *simulated(t, 2).Driver()
			d.Blocking = blocking
			onRanks(t, &d, 2, 2, chainHalf, Options{Memory: rendezvousMemory}, func(r *rank) error {
				for i, n := range []int{140_000, 140_001, 20} {
					if err := first(r.blocks(n, i%2 == 1),
						func() error { return r.sendRecvs(n, 5*symheap.EagerSlots/4) },
						func() error { return r.sendRecvs(n, 3) },
						func() error { return r.oneWay(n, 5*symheap.EagerSlots/4) }); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// oneWay has rank 1 receive some messages of n/some elements in a block.
func (r *rank) oneWay(n, some int) error {
	part := n / some
	in, out := r.tensor(0, colligo.Int32, 0, part*some), r.tensor(1, colligo.Int32, 0, part*some)
	if r.g.Rank() == 0 {
		out = in
	}
	own := values(colligo.Int32, colligo.KindSum, 0, part*some)
	return r.tryCaptured(3, in, own, out, own, func() error {
		return r.g.Coalesce(r.ctx, func(b *pg.Batch) error {
			for i := range some {
				switch r.g.Rank() {
				case 0:
					b.Send(in.Slice(i*part, (i+1)*part), 1, 0)
				case 1:
					b.Recv(out.Slice(i*part, (i+1)*part), 0, 0)
				}
			}
			return nil
		})
	})
}

// sendrecvs exchanges some messages of n/some elements with the next rank and the one before, the receives first.
func (r *rank) sendRecvs(n, some int) error {
	part, size, me := n/some, r.g.Size(), r.g.Rank()
	next, prev := (me+1)%size, (me+size-1)%size
	in, out := r.tensor(0, colligo.Int32, 0, part*some), r.tensor(1, colligo.Int32, 0, part*some)
	own, theirs := values(colligo.Int32, colligo.KindSum, me, part*some), values(colligo.Int32, colligo.KindSum, prev, part*some)
	return r.tryCaptured(3, in, own, out, theirs, func() error {
		return r.g.Coalesce(r.ctx, func(b *pg.Batch) error {
			for i := range some {
				b.Recv(out.Slice(i*part, (i+1)*part), prev, i)
			}
			for i := range some {
				b.Send(in.Slice(i*part, (i+1)*part), next, i)
			}
			return nil
		})
	})
}

// TestRendezvousInACircle has three ranks send long messages to one another in blocks. The first receive of each rank is of
// the second send of its peer.
func TestRendezvousInACircle(t *testing.T) {
	t.Parallel()
	onRanks(t, simulated(t, 3).Driver(), 3, 3, chainHalf, Options{Memory: rendezvousMemory, Timeout: time.Minute}, func(r *rank) error {
		n, me := 110_000, r.g.Rank()
		next, prev := (me+1)%3, (me+2)%3
		in, out := r.tensor(0, colligo.Int32, 0, n), r.tensor(1, colligo.Int32, 0, 2*n)
		own := values(colligo.Int32, colligo.KindSum, me, n)
		theirs := append(values(colligo.Int32, colligo.KindSum, next, n), values(colligo.Int32, colligo.KindSum, prev, n)...)
		return r.tryCaptured(2, in, own, out, theirs, func() error {
			return r.g.Coalesce(r.ctx, func(b *pg.Batch) error {
				for i, peer := range []int{next, prev} {
					b.Recv(out.Slice(i*n, (i+1)*n), peer, 0)
				}
				for _, peer := range []int{next, prev} {
					b.Send(in, peer, 0)
				}
				return nil
			})
		})
	})
}
