package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg"
)

// TestFirstMessage has two ranks of three alone make a group's first call: a message, or a batch of two. On devices the group is bound.
func TestFirstMessage(t *testing.T) {
	for name, call := range map[string]func(r *rank){
		"message": func(r *rank) {
			if x := full(r, 10, int64(r.Rank()+1)); r.Rank() == 0 {
				require.NoError(r.t, r.Send(r.ctx, x, 1, 0))
			} else {
				require.NoError(r.t, r.Recv(r.ctx, x, 0, 0))
				require.Equal(r.t, repeat(10, int64(1)), values[int64](r, x))
			}
		},
		"batch": func(r *rank) {
			x, y := full(r, 10, int64(r.Rank()+1)), full(r, 10, int64(0))
			lines := []pg.P2P{{Op: pg.Isend, Tensor: x, Peer: 1 - r.Rank(), Group: r.Group}, {Op: pg.Irecv, Tensor: y, Peer: 1 - r.Rank(), Group: r.Group}}
			works, err := pg.BatchIsendIrecv(r.ctx, lines)
			require.NoError(r.t, err)
			for _, w := range works {
				r.waited(w)
			}
			require.Equal(r.t, repeat(10, int64(2-r.Rank())), values[int64](r, y))
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, 3, func(r *rank) {
				o := pg.GroupOptions{}
				if r.gpu != nil {
					o = r.eager()
				}
				g, err := r.NewGroupWith(r.ctx, []int{0, 1, 2}, o)
				require.NoError(r.t, err)
				s := r.in(g)
				defer s.leave()
				if r.Rank() < 2 {
					call(s)
				}
			})
		})
	}
}
