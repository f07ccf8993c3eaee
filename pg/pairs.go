package pg

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// Send sends t to rank to. The tag must be the one that the receiver asks for; messages of one tag arrive in the order
// they were sent. Send returns when t may be changed again, which can be before the receiver has it. On a GPU all messages
// of a pair arrive in the order they were sent, whatever their tags: a receive that does not fit the next one fails within
// seconds. c10d: send, isend.
func (g *Group) Send(ctx context.Context, t colligo.Tensor, to, tag int) error {
	return g.run(ctx, g.call().Send(t, to, tag))
}

// SendAsync starts a Send.
func (g *Group) SendAsync(ctx context.Context, t colligo.Tensor, to, tag int) *Work {
	return g.start(ctx, g.call().Send(t, to, tag))
}

// Recv receives t from rank from. Element type and length must be the sender's. c10d: recv, irecv.
func (g *Group) Recv(ctx context.Context, t colligo.Tensor, from, tag int) error {
	return g.run(ctx, g.call().Recv(t, from, tag))
}

// RecvAsync starts a Recv.
func (g *Group) RecvAsync(ctx context.Context, t colligo.Tensor, from, tag int) *Work {
	return g.start(ctx, g.call().Recv(t, from, tag))
}

// RecvAny receives t from whichever rank sends with this tag first, and returns that rank. Tensors on a GPU have no such
// receive. c10d: recv without a source.
func (g *Group) RecvAny(ctx context.Context, t colligo.Tensor, tag int) (from int, err error) {
	g = g.orOutside()
	o := g.call().Recv(t, op.AnyPeer, tag)
	_, err = g.do(ctx, o, false)
	from = int(o.Peer)
	g.host.Recycle(o)
	return from, err
}

// RecvAnyAsync starts a RecvAny; Work.Source tells the rank.
func (g *Group) RecvAnyAsync(ctx context.Context, t colligo.Tensor, tag int) *Work {
	return g.start(ctx, g.call().Recv(t, op.AnyPeer, tag))
}
