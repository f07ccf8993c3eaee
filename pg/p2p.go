package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// P2POp says whether one line of a BatchIsendIrecv sends or receives. c10d: the function in a P2POp.
type P2POp uint8

// The two kinds. The zero value is neither, so that one that was forgotten is found.
const (
	Isend P2POp = iota + 1
	Irecv
)

// P2P is one send or receive of a BatchIsendIrecv. c10d: P2POp.
type P2P struct {
	Op     P2POp
	Tensor colligo.Tensor
	Peer   int // a rank of the group
	Tag    int
	Group  *Group
}

// BatchIsendIrecv starts sends and receives together, all of one group and on one device. Messages of a pair are sent and
// matched in the order of the list. A tensor that is received into may be part of no other line.
//
// It returns one Work for all lines on a device, where they are one launch, and one for each line on the CPU. The tensors
// belong to the operation until it is done. A rank may send to itself, where both ends are in the list. If a line is wrong nothing is started, and the group goes on; any later error
// ends it.
//
// On the CPU a batch may be the first call of a group, and some ranks alone may make it: the links are there. On a GPU too, where
// Config.Device or GroupOptions.Device has opened its backend. Else all ranks must join the first, as in c10d. c10d: batch_isend_irecv.
func BatchIsendIrecv(ctx context.Context, lines []P2P) ([]*Work, error) {
	ops, err := checkLines(lines)
	if err != nil {
		return nil, fmt.Errorf("pg: batch_isend_irecv: %w", err)
	}
	g := lines[0].Group
	if err := checkAll(g, ops); err != nil {
		return nil, err
	}
	return startBatch(ctx, g, ops)
}

// startBatch starts sends and receives together. They have one Work on a device and one each on the CPU.
func startBatch(ctx context.Context, g *Group, ops []*op.Op) ([]*Work, error) {
	if !ops[0].OnCPU() {
		w := g.startAll(ctx, ops, nil)
		if w.op.Over {
			return nil, w.op.Err
		}
		return []*Work{w}, nil
	}
	for _, o := range ops {
		o.With(ctx)
		if err := g.admissible(ctx, o); err != nil {
			return nil, err
		}
	}
	if g.size == 1 {
		return (*alone)(g).startEach(ctx, ops)
	}
	return (*onHost)(g).startEach(ops)
}

// startEach carries out sends and receives of the only rank to itself.
func (c *alone) startEach(ctx context.Context, ops []*op.Op) ([]*Work, error) {
	works := make([]*Work, len(ops))
	for i, o := range ops {
		works[i] = (*Group)(c).newWork(o)
		works[i].pending = host.Pending{Op: o}
	}
	if _, err := c.carryAll(ctx, ops); err != nil {
		return nil, err
	}
	for _, o := range ops {
		o.Done = closedChannel
	}
	return works, nil
}

// startEach starts operations together and gives each a Work.
func (c *onHost) startEach(ops []*op.Op) ([]*Work, error) {
	g := (*Group)(c)
	works := make([]*Work, len(ops))
	for i, o := range ops {
		works[i] = g.newWork(o)
		works[i].pending = host.Pending{Op: o}
	}
	_, run, err := c.enqueueAll(ops, true)
	if err != nil {
		return nil, g.explain(ops[0], 0, err, true)
	}
	g.host.Start(run)
	return works, nil
}

// checkLines makes the operations of a batch.
func checkLines(lines []P2P) ([]*op.Op, error) {
	if len(lines) == 0 {
		return nil, errors.New("the list is empty")
	}
	ops := make([]*op.Op, len(lines))
	for i, l := range lines {
		switch {
		case l.Group == nil:
			return nil, fmt.Errorf("line %d of %d has no group", i, len(lines))
		case l.Group != lines[0].Group:
			return nil, fmt.Errorf("line %d of %d is of group %s, the first of group %s", i, len(lines), l.Group.name,
				lines[0].Group.name)
		case l.Op == Isend:
			ops[i] = l.Group.call().Send(l.Tensor, l.Peer, l.Tag)
		case l.Op == Irecv:
			ops[i] = l.Group.call().Recv(l.Tensor, l.Peer, l.Tag)
		default:
			return nil, fmt.Errorf("line %d of %d is neither Isend nor Irecv", i, len(lines))
		}
	}
	return ops, apart(lines)
}

// apart refuses lines that receive into memory of another.
func apart(lines []P2P) error {
	order := make([]int, 0, len(lines))
	for i, l := range lines {
		if l.Tensor.Valid() && l.Tensor.Contiguous() && l.Tensor.Len() > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lines[a].Tensor.Addr(), lines[b].Tensor.Addr()) })
	// Of the lines that begin before one, those that reach furthest tell of any overlap: of all lines and of those that receive.
	all, received := -1, -1
	further := func(best, i int) int {
		if best < 0 || op.End(lines[i].Tensor) > op.End(lines[best].Tensor) {
			return i
		}
		return best
	}
	for _, i := range order {
		other := received
		if lines[i].Op == Irecv {
			other = all
		}
		if other >= 0 && op.Overlap(lines[other].Tensor, lines[i].Tensor) {
			return fmt.Errorf("lines %d and %d share memory, and one receives into it", min(i, other), max(i, other))
		}
		if all = further(all, i); lines[i].Op == Irecv {
			received = further(received, i)
		}
	}
	return nil
}
