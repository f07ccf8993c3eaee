package staged

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// transfer is an operation on its way through a pipeline.
type transfer struct {
	backend.Call
	shape     plan.Shape
	factor    *colligo.Tensor // of a premultiplied sum, if it is on the device
	ins, outs []extent // on the device
	behind    int      // where outs begin in a slot, in bytes; 0 if they take the place of ins
	most      int      // elements that a round moves of one extent at most, equal on all ranks
	rounds    int      // that the device takes part in, equal on all ranks but for splits
}

// extent is elements on the device that lie one behind the other.
type extent struct {
	at cuda.Pointer
	n  int
}

// piece is the part of an extent that a round moves, and where it lies in the slot, behind the pieces before it.
type piece struct {
	at         cuda.Pointer
	off, bytes int
}

// newTransfer cuts a call into rounds.
func (l *pipeline) newTransfer(c *backend.Call) (*transfer, error) {
	x := &transfer{Call: *c, shape: plan.Shape{Coll: c.Coll, Rank: l.b.rank, Size: l.b.size, Root: c.Root, Count: c.Count, Counts: c.Counts,
		RecvCounts: c.RecvCounts}}
	_, by := c.Op.Factor()
	if by != nil && by.Device().Kind != colligo.CPU {
		x.factor, by = by, nil
	}
	if by != nil {
		factor, err := kernels.Scalar(*by)
		if err != nil {
			return nil, err
		}
		x.Op = colligo.PremulSum(factor)
	}
	x.findExtents(l.b.rank == c.Root)
	apart := 1 // extents of any rank that lie side by side in a slot
	switch c.Coll {
	case plan.AllGather:
		apart = l.b.size
	case plan.ReduceScatter, plan.Gather, plan.Scatter:
		apart = l.b.size + 1
	case plan.AllToAll:
		apart = 2 * l.b.size
	}
	if x.factor != nil {
		apart++
	}
	bytes := len(l.slots[0].bytes) / apart / cacheLine * cacheLine
	x.most = bytes / c.DType.Size()
	switch c.Coll {
	case plan.ReduceScatter, plan.AllToAll, plan.Gather, plan.Scatter:
		x.behind = bytes * len(x.ins)
	}
	x.rounds = max((x.longest()+x.most-1)/x.most, 1) // one even of nothing: the CPU compares the calls of the ranks
	return x, nil
}

// findExtents finds the extents of the device.
func (x *transfer) findExtents(root bool) {
	elem := x.DType.Size()
	in, out := devmem.Parts{One: x.In, List: x.Ins, Elem: elem}, devmem.Parts{One: x.Out, List: x.Outs, Elem: elem}
	switch x.Coll {
	case plan.AllReduce:
		x.ins, x.outs = whole(&in, x.Count), whole(&out, x.Count)
	case plan.Reduce:
		x.ins = whole(&in, x.Count)
		if root {
			x.outs = whole(&out, x.Count)
		}
	case plan.Broadcast:
		if root {
			x.ins = whole(&in, x.Count)
		} else {
			x.outs = whole(&out, x.Count)
		}
	case plan.AllGather:
		x.ins, x.outs = whole(&in, x.shape.PartLen(x.shape.Rank)), x.parts(&out)
	case plan.ReduceScatter:
		x.ins, x.outs = x.parts(&in), whole(&out, x.shape.PartLen(x.shape.Rank))
	case plan.AllToAll:
		x.ins = x.parts(&in)
		for q := range x.shape.Size {
			x.outs = append(x.outs, extent{out.At(q, x.shape.RecvOff(q)), x.shape.RecvLen(q)})
		}
	case plan.Gather:
		if x.ins = whole(&in, x.shape.PartLen(x.shape.Rank)); root {
			x.outs = x.parts(&out)
		}
	case plan.Scatter:
		if x.outs = whole(&out, x.shape.PartLen(x.shape.Rank)); root {
			x.ins = x.parts(&in)
		}
	case plan.Send:
		x.ins = whole(&in, x.Count)
	case plan.Recv:
		x.outs = whole(&out, x.Count)
	}
}

func whole(r *devmem.Parts, n int) []extent { return []extent{{r.Whole(), n}} }

// parts are those of all ranks.
func (x *transfer) parts(r *devmem.Parts) []extent {
	all := make([]extent, x.shape.Size)
	for q := range all {
		all[q] = extent{r.At(q, x.shape.PartOff(q)), x.shape.PartLen(q)}
	}
	return all
}

// longest is the length of the longest extent of any rank, of splits that of this rank's.
func (x *transfer) longest() int {
	n := x.Count
	for q := range x.shape.Size {
		if x.Counts != nil {
			n = max(n, x.shape.PartLen(q))
		}
		if x.RecvCounts != nil {
			n = max(n, x.shape.RecvLen(q))
		}
	}
	return n
}

// length is how many elements a round moves of an extent of n.
func (x *transfer) length(n, round int) int { return max(min(n-round*x.most, x.most), 0) }

// cut returns the pieces that a round moves of extents that lie one behind the other in a slot.
func (x *transfer) cut(all []extent, off, round int) []piece {
	pieces, elem := make([]piece, len(all)), x.DType.Size()
	for i, s := range all {
		pieces[i] = piece{s.at + cuda.Pointer(round*x.most*elem), off, x.length(s.n, round) * elem}
		off += pieces[i].bytes
	}
	return pieces
}

// down returns the pieces that a round moves from the device. A rank's input of an all_gather has its place among the outputs.
func (x *transfer) down(round int) []piece {
	off := 0
	if x.Coll == plan.AllGather {
		off = x.up(round)[x.shape.Rank].off
	}
	return x.cut(x.ins, off, round)
}

// withFactor adds the factor of a premultiplied sum that is on the device to the pieces of the first round. It lies behind all others.
func (x *transfer) withFactor(pieces []piece, round int) []piece {
	if x.factor == nil || round != 0 {
		return pieces
	}
	return append(pieces, piece{cuda.Pointer(x.factor.Addr()), x.factorOff(), x.factor.Size()})
}

// factorOff is where the factor lies in a slot.
func (x *transfer) factorOff() int {
	end := 0
	for _, p := range append(x.down(0), x.up(0)...) {
		end = max(end, p.off+p.bytes)
	}
	return end
}

// takeFactor reads the factor that came with the first round.
func (x *transfer) takeFactor(sl *slot) error {
	at := x.factorOff()
	factor, err := kernels.Scalar(colligo.Bytes(bytes.Clone(sl.bytes[at:at+x.factor.Size()]), x.factor.DType()))
	x.Op = colligo.PremulSum(factor)
	return err
}

// up returns the pieces that a round moves to the device.
func (x *transfer) up(round int) []piece { return x.cut(x.outs, x.behind, round) }

// tensors views pieces in a slot.
func (x *transfer) tensors(sl *slot, all []piece) []colligo.Tensor {
	ts := make([]colligo.Tensor, len(all))
	for i, p := range all {
		ts[i] = colligo.Bytes(sl.bytes[p.off:p.off+p.bytes:p.off+p.bytes], x.DType)
	}
	return ts
}

// compute has the CPU carry out a round.
func (l *pipeline) compute(x *transfer, round int, sl *slot) error {
	if x.factor != nil && round == 0 {
		if err := x.takeFactor(sl); err != nil {
			return err
		}
	}
	in, out := x.tensors(sl, x.down(round)), x.tensors(sl, x.up(round))
	ctx, g := context.Background(), l.b.dup
	c := backend.Call{Coll: x.Coll, DType: x.DType, Op: x.Op, Root: x.Root, Peer: x.Peer, Tag: x.Tag, Counts: x.lengths(round)}
	switch x.Coll {
	case plan.AllReduce:
		c.Out = in[0]
	case plan.Reduce, plan.Send:
		c.In = in[0]
	case plan.Recv:
		c.Out = out[0]
	case plan.Broadcast:
		c.In = append(in, out...)[0]
		c.Out = c.In
	case plan.AllGather, plan.Gather:
		c.In, c.Outs = in[0], out
	case plan.ReduceScatter, plan.Scatter:
		c.Ins, c.Out = in, out[0]
	case plan.AllToAll:
		c.Ins, c.Outs = in, out
	default:
		return fmt.Errorf("%v has no form on a device", x.Coll)
	}
	return g.Do(ctx, &c)
}

// lengths are those of all ranks' parts in a round, nil where they are equal.
func (x *transfer) lengths(round int) []int {
	if x.Counts == nil {
		return nil
	}
	n := slices.Clone(x.Counts)
	for q := range n {
		n[q] = x.length(n[q], round)
	}
	return n
}

// callBytes is the length of a rank's description of a call: its rounds, and text.
const callBytes = 128

// compare finds out whether the ranks call the same where no single round can tell, and returns how many rounds there are
// for the CPU.
func (l *pipeline) compare(x *transfer) (rounds int, err error) {
	rounds = x.rounds
	if rounds == 1 && x.RecvCounts == nil {
		return rounds, nil
	}
	own := make([]byte, callBytes)
	binary.LittleEndian.PutUint32(own, uint32(x.rounds))
	copy(own[4:], x.text())
	ctx, g := context.Background(), l.b.dup
	switch x.Coll {
	case plan.Send:
		return rounds, g.Do(ctx, &backend.Call{Coll: plan.Send, In: colligo.Of(own), Peer: x.Peer, Tag: x.Tag})
	case plan.Recv:
		theirs := make([]byte, callBytes)
		if err := g.Do(ctx, &backend.Call{Coll: plan.Recv, Out: colligo.Of(theirs), Peer: x.Peer, Tag: x.Tag}); err != nil {
			return 0, err
		}
		return rounds, disagree(x.Peer, theirs, own)
	}
	all := make([]byte, l.b.size*callBytes)
	if err := backend.AllGather(ctx, g, colligo.Of(all), colligo.Of(own)); err != nil {
		return 0, err
	}
	for q := range l.b.size {
		theirs := all[q*callBytes : (q+1)*callBytes]
		if err := disagree(q, theirs, own); err != nil {
			return 0, err
		}
		rounds = max(rounds, int(binary.LittleEndian.Uint32(theirs)))
	}
	return rounds, nil
}

// disagree returns an error if a peer has called something else.
func disagree(peer int, theirs, own []byte) error {
	if bytes.Equal(theirs[4:], own[4:]) {
		return nil
	}
	text := func(b []byte) string { return string(bytes.TrimRight(b[4:], "\x00")) }
	return fmt.Errorf("rank %d called %s, this rank called %s: %w", peer, text(theirs), text(own), colligo.ErrMismatch)
}

// text is the same for calls that belong together.
func (x *transfer) text() string {
	if x.Coll == plan.Recv {
		return fmt.Sprintf("%v (%s)", plan.Send, x.what())
	}
	return fmt.Sprintf("%v (%s)", x.Coll, x.what())
}

// what describes the elements of the operation, the same on all ranks.
func (x *transfer) what() string {
	if x.RecvCounts != nil {
		return fmt.Sprintf("%v elements", x.DType)
	}
	s := fmt.Sprintf("%d %v elements", x.Count, x.DType)
	if x.Counts != nil {
		h := fnv.New32a()
		fmt.Fprint(h, x.Counts)
		s = fmt.Sprintf("%d %v elements, counts %08x", x.shape.PartOff(x.shape.Size), x.DType, h.Sum32())
	}
	if x.Coll.Reduces() {
		s += ", " + x.Op.String()
	}
	if x.Coll.Rooted() {
		s += fmt.Sprintf(", root %d", x.Root)
	}
	return s
}
