package pg

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// Send sends t to a rank. The tag is the one that the receiver asks for. On the CPU messages of one tag arrive in the order
// in which they were sent. Send returns when t may be changed again, which can be before the receiver has the message.
//
// On a GPU the call is enqueued on the caller's stream, and all messages of a pair arrive in their order, whatever their
// tags. A receive that does not fit the next one then fails within seconds. A group that is not bound to its GPU opens the GPU's backend
// in its first operation there, which all ranks must join. That operation can be a message only in a group of two. A wrong argument is an
// error of this call alone; any later error ends the group. c10d: send.
func (g *Group) Send(ctx context.Context, t colligo.Tensor, to, tag int) error {
	return g.run(ctx, g.call().Send(t, to, tag))
}

// SendAsync starts a Send. Its Work tells the end and the error; t must not be changed until then. c10d: isend.
func (g *Group) SendAsync(ctx context.Context, t colligo.Tensor, to, tag int) *Work {
	return g.start(ctx, g.newCall().Send(t, to, tag))
}

// Recv receives a message with a tag from a rank into t. Element type and length must be the sender's; a difference ends the
// group.
//
// On a GPU the call is enqueued on the caller's stream, and messages are matched as Send says. A wrong argument is an error
// of this call alone; any later error ends the group. c10d: recv.
func (g *Group) Recv(ctx context.Context, t colligo.Tensor, from, tag int) error {
	return g.run(ctx, g.call().Recv(t, from, tag))
}

// RecvAsync starts a Recv. Its Work tells the end and the error; t belongs to the operation until then. c10d: irecv.
func (g *Group) RecvAsync(ctx context.Context, t colligo.Tensor, from, tag int) *Work {
	return g.start(ctx, g.newCall().Recv(t, from, tag))
}

// RecvAny receives a message with a tag into t from the rank that sends one first, and returns that rank. Element type and
// length must be the sender's. Tensors on a GPU are refused: kernels have to be told where to look. Errors are as for Recv.
// c10d: recv without a source.
func (g *Group) RecvAny(ctx context.Context, t colligo.Tensor, tag int) (from int, err error) {
	g = g.orOutside()
	o := g.call().Recv(t, op.AnyPeer, tag)
	_, err = g.do(ctx, o, false)
	from = int(o.Peer)
	g.spares.Put(o)
	return from, err
}

// RecvAnyAsync starts a RecvAny. Its Work tells the end and the error, and Work.Source the rank; t belongs to the operation
// until then. c10d: irecv without a source.
func (g *Group) RecvAnyAsync(ctx context.Context, t colligo.Tensor, tag int) *Work {
	return g.start(ctx, g.newCall().Recv(t, op.AnyPeer, tag))
}
