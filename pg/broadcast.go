package pg

import (
	"context"

	"github.com/colligo-go/colligo"
)

// Broadcast copies the elements of t on the root to t on every other rank. T has the same length and element type on all
// ranks, and the root is the same.
//
// On a GPU the call is enqueued on the caller's stream. A wrong argument is an error of this call alone; any later error
// ends the group. c10d: broadcast.
func (g *Group) Broadcast(ctx context.Context, t colligo.Tensor, root int) error {
	return g.run(ctx, g.call().Broadcast(t, root))
}

// BroadcastAsync starts a Broadcast. Its Work tells the end and the error; t belongs to the operation until then, on the
// root too. c10d: broadcast with async_op.
func (g *Group) BroadcastAsync(ctx context.Context, t colligo.Tensor, root int) *Work {
	return g.start(ctx, g.newCall().Broadcast(t, root))
}
