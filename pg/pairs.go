package pg

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// Send sends t to rank to. The tag must be the one that the receiver asks for; messages of one tag arrive in the order
// they were sent. Send returns when t may be changed again, which can be before the receiver has it. On a GPU all messages
// of a pair arrive in the order they were sent, whatever their tags: a receive that does not fit the next one fails within
// seconds. c10d: send, isend.
func (g *Group) Send(ctx context.Context, t colligo.Tensor, to, tag int) error {
	return g.run(ctx, g.send(t, to, tag))
}

// SendAsync starts a Send.
func (g *Group) SendAsync(ctx context.Context, t colligo.Tensor, to, tag int) *Work {
	return g.start(ctx, g.send(t, to, tag))
}

// Recv receives t from rank from. Element type and length must be the sender's. c10d: recv, irecv.
func (g *Group) Recv(ctx context.Context, t colligo.Tensor, from, tag int) error {
	return g.run(ctx, g.receive(t, from, tag))
}

// RecvAsync starts a Recv.
func (g *Group) RecvAsync(ctx context.Context, t colligo.Tensor, from, tag int) *Work {
	return g.start(ctx, g.receive(t, from, tag))
}

// RecvAny receives t from whichever rank sends with this tag first, and returns that rank. Tensors on a GPU have no such
// receive. c10d: recv without a source.
func (g *Group) RecvAny(ctx context.Context, t colligo.Tensor, tag int) (from int, err error) {
	return g.runFrom(ctx, g.receive(t, anyPeer, tag))
}

// RecvAnyAsync starts a RecvAny; Work.Source tells the rank.
func (g *Group) RecvAnyAsync(ctx context.Context, t colligo.Tensor, tag int) *Work {
	return g.start(ctx, g.receive(t, anyPeer, tag))
}

func (g *Group) send(t colligo.Tensor, to, tag int) (r request) {
	g.pair(&r, plan.Send, t, to, tag)
	r.read(t)
	return r
}

func (g *Group) receive(t colligo.Tensor, from, tag int) (r request) {
	g.pair(&r, plan.Recv, t, from, tag)
	r.write(t)
	return r
}

func (g *Group) pair(r *request, coll plan.Coll, t colligo.Tensor, peer, tag int) {
	g = g.orOutside()
	g.newRequest(r, coll, t)
	r.count, r.peer, r.tag = t.Len(), peer, tag
	if peer != anyPeer && (peer < 0 || peer >= g.size) || peer == anyPeer && coll == plan.Send {
		r.failf("peer %d of a group of %d ranks", peer, g.size)
	}
	if peer == anyPeer && r.device.Kind != colligo.CPU {
		r.failf("a receive from any rank into a tensor on %v: a GPU has to be told which rank it waits for, give the source", r.device)
	}
	if peer == g.rank {
		r.failf("rank %d is this rank itself", peer)
	}
	if tag != int(int32(tag)) {
		r.failf("tag %d does not fit into 32 bits", tag)
	}
}

// pairState is how far a send or receive has come.
type pairState struct {
	off     int
	matched bool // a receive has a message
	head    transport.Header
}

// advancePairs moves every send and receive that can move.
func (g *Group) advancePairs() bool {
	if len(g.pairs) == 0 {
		return false
	}
	clear(g.busy)
	moved := false
	for i := 0; i < len(g.pairs); {
		op := g.pairs[i]
		if !op.begun {
			g.beginPair(op)
		}
		var m bool
		var err error
		if op.coll == plan.Send {
			m, err = g.advanceSend(op)
		} else {
			m, err = g.advanceReceive(op)
		}
		moved = moved || m
		if err != nil && g.broken(op, err) {
			return true
		}
		if !op.over {
			i++
			continue
		}
		g.pairs = append(g.pairs[:i], g.pairs[i+1:]...)
		g.end(op, nil)
	}
	return g.keepStrays() || moved
}

func (g *Group) beginPair(op *operation) {
	op.begun = true
	g.ledger.begin(&op.rec)
	// Sends and receives do not reduce, so packing cannot fail.
	_ = op.pack()
}

// advanceSend moves a send if no earlier one to the same peer is still going on.
func (g *Group) advanceSend(op *operation) (moved bool, err error) {
	if g.busy[op.peer] {
		return false, nil
	}
	l, h := g.links[op.peer], &op.pair.head
	for {
		p := op.in[op.pair.off:]
		p = p[:min(len(p), l.MaxFrame())]
		*h = transport.Header{Call: transport.Call{Group: g.id, Coll: uint8(plan.Send), DType: uint8(op.dtype),
			Count: uint64(op.count), Root: int32(op.tag)}, Lane: p2pLane, Len: uint32(len(p)), Total: uint64(len(op.in))}
		ok, err := l.Send(h, p)
		if err != nil || !ok {
			g.busy[op.peer] = true
			return moved, wrapPeer(op.peer, err)
		}
		moved = true
		if op.pair.off += len(p); op.pair.off == len(op.in) {
			op.over = true
			return true, nil
		}
	}
}

func wrapPeer(peer int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("peer %d: %w", peer, err)
}

// advanceReceive finds a message for a receive, and moves one that has it.
func (g *Group) advanceReceive(op *operation) (moved bool, err error) {
	if !op.pair.matched {
		if ok, err := g.stash.take(op); ok || err != nil {
			return ok, err
		}
		if err := g.match(op); err != nil || !op.pair.matched {
			return false, err
		}
	}
	moved, err = g.fill(op.peer, op.out, &op.pair.off)
	if op.over = err == nil && op.pair.off == len(op.out) && moved; op.over {
		op.unpack()
		g.taken[op.peer] = nil
	}
	return moved, wrapPeer(op.peer, err)
}

// match gives a receive the message at the head of a peer's lane if the tag fits and no other receive has it.
func (g *Group) match(op *operation) error {
	first, last := op.peer, op.peer
	if op.peer == anyPeer {
		first, last = 0, g.size-1
	}
	gone := 0
	for peer := first; peer <= last; peer++ {
		if peer == g.rank || g.taken[peer] != nil {
			continue
		}
		h, err := g.links[peer].Head(p2pLane)
		if err != nil {
			if gone++; gone < g.size-1 && op.peer == anyPeer {
				continue // another may send
			}
			return wrapPeer(peer, err)
		}
		if h == nil || int(h.Call.Root) != op.tag {
			continue
		}
		if err := op.fits(peer, h.Call); err != nil {
			return err
		}
		op.pair.matched, op.peer, g.taken[peer] = true, peer, op
		return nil
	}
	return nil
}

// fits compares a message with the receive that has its tag.
func (op *operation) fits(peer int, c transport.Call) error {
	if c.DType == uint8(op.dtype) && c.Count == uint64(op.count) {
		return nil
	}
	return &classed{fmt.Errorf("rank %d sends %d %v elements with tag %d, this rank receives %d %v elements", peer, c.Count,
		colligo.DType(c.DType), op.tag, op.count, op.dtype), colligo.ErrMismatch}
}

// fill takes the frames of a message that have arrived.
func (g *Group) fill(peer int, dst []byte, off *int) (moved bool, err error) {
	l := g.links[peer]
	for {
		h, err := l.Head(p2pLane)
		if err != nil || h == nil {
			return moved, err
		}
		n := int(h.Len)
		if h.Total != uint64(len(dst)) || n > len(dst)-*off || n == 0 && len(dst) > 0 {
			return moved, fmt.Errorf("%w: %d bytes at offset %d of a message of %d bytes", transport.ErrCorrupt, n, *off, len(dst))
		}
		if _, ok, err := l.Body(p2pLane, dst[*off:*off+n]); err != nil || !ok {
			return moved, err
		}
		l.Release(p2pLane)
		moved = true
		if *off += n; *off == len(dst) {
			return true, nil
		}
	}
}
