package peer

import (
	"fmt"
	"testing"

	"github.com/colligo-go/colligo"
)

// eager checks messages of n elements: round the ring, and both directions at once between neighbours.
func (r *rank) eager(n int) error {
	d, size, me := colligo.Int32, r.g.Size(), r.g.Rank()
	next, prev := (me+1)%size, (me+size-1)%size
	out, in := r.tensor(0, d, 1, n), r.tensor(1, d, 2, n)
	own, theirs := values(d, colligo.KindSum, me, n), values(d, colligo.KindSum, prev, n)
	if err := r.try(fmt.Sprintf("send of %d", n), out, own, in, theirs, func() error {
		s, v := r.g.SendAsync(r.ctx, out, next, 0), r.g.RecvAsync(r.ctx, in, prev, 0)
		return first(s.Wait(r.ctx),
			func() error { return v.Wait(r.ctx) },
			func() error { return s.Synchronize(r.ctx) },
			func() error { return v.Synchronize(r.ctx) })
	}); err != nil {
		return err
	}
	return r.try(fmt.Sprintf("blocking send of %d", n), out, own, in, theirs, func() error {
		if me == 0 {
			return first(r.g.Send(r.ctx, out, next, 0), func() error { return r.g.Recv(r.ctx, in, prev, 0) })
		}
		return first(r.g.Recv(r.ctx, in, prev, 0), func() error { return r.g.Send(r.ctx, out, next, 0) })
	})
}

func TestEager(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 3, 4} {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			onSim(t, size, small(LL), func(r *rank) error {
				for _, n := range []int{1, 0, 1000, 200_000} {
					if err := r.eager(n); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
