package pg

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// Broadcast copies the elements of t on the root to t on every other rank. c10d: broadcast.
func (g *Group) Broadcast(ctx context.Context, t colligo.Tensor, root int) error {
	r := g.broadcast(t, root)
	return g.runOf(ctx, &r)
}

// BroadcastAsync starts a Broadcast.
func (g *Group) BroadcastAsync(ctx context.Context, t colligo.Tensor, root int) *Work {
	return g.start(ctx, g.broadcast(t, root))
}

func (g *Group) broadcast(t colligo.Tensor, root int) (r request) {
	g = g.orOutside()
	g.newRequest(&r, plan.Broadcast, t)
	r.count = t.Len()
	r.rooted(root)
	if g.rank == root {
		r.readChecked(&t)
	} else {
		r.writeChecked(&t)
	}
	return r
}
