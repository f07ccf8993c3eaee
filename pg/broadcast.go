package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// Broadcast copies the elements of t on the root to t on every other rank. c10d: broadcast.
func (g *Group) Broadcast(ctx context.Context, t colligo.Tensor, root int) error {
	return g.run(ctx, g.call().Broadcast(t, root))
}

// BroadcastAsync starts a Broadcast.
func (g *Group) BroadcastAsync(ctx context.Context, t colligo.Tensor, root int) *Work {
	return g.start(ctx, g.call().Broadcast(t, root))
}
