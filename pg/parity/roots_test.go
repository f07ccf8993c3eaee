package parity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestBroadcastRootsDiffer has ranks mean different roots of one broadcast. All hear of it, and that it is this broadcast, before
// they call anything else. Some of them wait for nobody, since they are roots by their own word. The broadcast is the group's first call,
// by which a device's backend opens, or its second.
func TestBroadcastRootsDiffer(t *testing.T) {
	for _, roots := range [][]int{{0, 1}, {1, 0}, {0, 1, 2}, {0, 1, 1}, {0, 0, 0, 1}, {0, 0, 2, 2}, {0, 1, 2, 3, 4}} {
		for _, n := range []int{1, 100_000} {
			for _, opened := range []bool{false, true} {
				t.Run(fmt.Sprintf("roots=%v/elements=%d/opened=%v", roots, n, opened), func(t *testing.T) {
					each(t, len(roots), func(r *rank) {
						x := full(r, n, float32(1))
						if opened {
							r.summed()
							r.meet("summed")
						}
						number := 1 + len(recent(r.Dump(everything)))
						if err := r.Broadcast(r.ctx, x, roots[r.Rank()]); err != nil {
							require.ErrorIs(r.t, err, colligo.ErrMismatch)
						}
						<-r.failed()
						require.ErrorIs(r.t, r.Err(), colligo.ErrMismatch)
						require.ErrorContains(r.t, r.Err(), fmt.Sprintf("called broadcast #%d (", number))
					})
				})
			}
		}
	}
}

// rootedCalls are the collectives that have a root, by name, on tensors of n elements in each part.
var rootedCalls = map[string]func(r *rank, n, root int) error{
	"broadcast": func(r *rank, n, root int) error { return r.Broadcast(r.ctx, full(r, n, float32(1)), root) },
	"reduce":    func(r *rank, n, root int) error { return r.Reduce(r.ctx, full(r, n, float32(1)), root, colligo.Sum) },
	"gather": func(r *rank, n, root int) error {
		return r.Gather(r.ctx, r.partsAt(n, root), full(r, n, float32(1)), root)
	},
	"scatter": func(r *rank, n, root int) error {
		return r.Scatter(r.ctx, full(r, n, float32(1)), r.partsAt(n, root), root)
	},
}

// partsAt are tensors of all ranks at the root, nil elsewhere.
func (r *rank) partsAt(n, root int) (all []colligo.Tensor) {
	for range r.Size() {
		if r.Rank() == root {
			all = append(all, full(r, n, float32(2)))
		}
	}
	return all
}

// TestRootsDifferAgain has ranks mean different roots of a collective. They have called it with each of these roots before. All hear of
// it, and that it is this collective, before they call anything else.
func TestRootsDifferAgain(t *testing.T) {
	beside(t)
	for name, call := range rootedCalls {
		for _, roots := range [][]int{{0, 1}, {1, 0}, {0, 1, 2}, {0, 1, 1}, {2, 1, 2}, {1, 0, 0}, {0, 0, 2, 2}} {
			t.Run(fmt.Sprintf("call=%s/roots=%v", name, roots), func(t *testing.T) {
				differ := func(r *rank) {
					for _, root := range []int{0, 0, 1, 1, 0} {
						require.NoError(r.t, call(r, 1, root))
					}
					for root := range r.Size() {
						require.NoError(r.t, call(r, 1, root))
					}
					r.meet("agreed")
					number := 5 + r.Size() + 1
					if err := call(r, 1, roots[r.Rank()]); err != nil {
						require.ErrorIs(r.t, err, colligo.ErrMismatch)
					}
					<-r.failed()
					require.ErrorIs(r.t, r.Err(), colligo.ErrMismatch)
					require.ErrorContains(r.t, r.Err(), fmt.Sprintf("%s #%d", name, number))
				}
				each(t, len(roots), differ)
				for medium, o := range map[string]pgtest.Options{"tcp": {Transport: "tcp"}, "inproc": {RealTime: true}} {
					t.Run(medium, func(t *testing.T) {
						pgtest.RunWith(t, len(roots), o, func(t *testing.T, g *pg.Group) { differ(&rank{Group: g, t: t, ctx: t.Context()}) })
					})
				}
			})
		}
	}
}
