package parity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// TestMessagesToSelf has ranks send to themselves in a batch, and in a block, beside messages to other ranks.
func TestMessagesToSelf(t *testing.T) {
	for _, size := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			each(t, size, func(r *rank) {
				next, before := (r.Rank()+1)%size, (r.Rank()+size-1)%size
				if size > 1 {
					r.summed()
				}
				for _, timing := range []bool{false, true} {
					r.SetTiming(timing)
					for name, run := range selfSenders {
						var outs []colligo.Tensor
						var lines []pg.P2P
						for i, to := range []int{r.Rank(), next, r.Rank()} {
							from := []int{r.Rank(), before, r.Rank()}[i]
							outs = append(outs, full(r, 5+i, float32(-1)))
							lines = append(lines, pg.P2P{Op: pg.Irecv, Tensor: outs[i], Peer: from, Tag: i, Group: r.Group},
								pg.P2P{Op: pg.Isend, Tensor: full(r, 5+i, float32(100*i+r.Rank())), Peer: to, Tag: i, Group: r.Group})
						}
						require.NoError(r.t, run(r, lines), name)
						for i, out := range outs {
							want := []int{r.Rank(), before, r.Rank()}[i]
							require.Equal(r.t, repeat(5+i, float32(100*i+want)), values[float32](r, out), name)
						}
					}
				}
				require.NoError(r.t, r.WaitPending(r.t.Context()))
				for _, e := range r.Dump(everything).Entries {
					require.Equal(r.t, flight.Completed, e.State, "%+v", e)
				}
				require.NoError(r.t, r.Close())
			})
		})
	}
}

// selfSenders are the calls that take both ends of a rank's message to itself.
var selfSenders = map[string]func(r *rank, lines []pg.P2P) error{
	"batch": func(r *rank, lines []pg.P2P) error {
		works, err := pg.BatchIsendIrecv(r.ctx, lines)
		for _, w := range works {
			r.waited(w)
		}
		return err
	},
	"block": func(r *rank, lines []pg.P2P) error { return r.Coalesce(r.ctx, giving(lines)) },
	"asynchronous block": func(r *rank, lines []pg.P2P) error {
		return r.CoalesceAsync(r.ctx, giving(lines)).Wait(r.ctx)
	},
}

// giving gives lines to a block.
func giving(lines []pg.P2P) func(b *pg.Batch) error {
	return func(b *pg.Batch) error {
		for _, l := range lines {
			if l.Op == pg.Isend {
				b.Send(l.Tensor, l.Peer, l.Tag)
			} else {
				b.Recv(l.Tensor, l.Peer, l.Tag)
			}
		}
		return nil
	}
}

// TestMessagesToSelfRefused has one end only, or two that do not fit. The group goes on.
func TestMessagesToSelfRefused(t *testing.T) {
	each(t, 2, func(r *rank) {
		x, y := full(r, 4, float32(1)), full(r, 5, float32(1))
		send := func(t colligo.Tensor, tag int) pg.P2P {
			return pg.P2P{Op: pg.Isend, Tensor: t, Peer: r.Rank(), Tag: tag, Group: r.Group}
		}
		recv := func(t colligo.Tensor, tag int) pg.P2P {
			l := send(t, tag)
			l.Op = pg.Irecv
			return l
		}
		for _, c := range []struct {
			says  string
			lines []pg.P2P
		}{
			{"both ends of its message must be in one batch or block", []pg.P2P{send(x, 0)}},
			{"both ends of its message must be in one batch or block", []pg.P2P{recv(x, 0)}},
			{"both ends of its message must be in one batch or block", []pg.P2P{send(x, 0), recv(full(r, 4, float32(0)), 0), send(x, 0)}},
			{"this rank sends itself 4 float32 elements with tag 0, and receives 5 float32 elements with tag 0", []pg.P2P{send(x, 0), recv(y, 0)}},
		} {
			_, err := pg.BatchIsendIrecv(r.ctx, c.lines)
			require.ErrorContains(r.t, err, c.says)
		}
		require.ErrorContains(r.t, r.Send(r.ctx, x, r.Rank(), 0), "is this rank itself")
		require.NoError(r.t, r.Err())
		r.summed()
	})
}
