package peer

import (
	"context"
	"math"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// Fused is a ring of copy engines with one kernel that goes behind them (kernels/_gen/cuda/fused.h has how, and why it is right).
// Beside the caller's stream, on which the kernel is, there are two of the ring's:
//
//	gate  wait for the kernel's word; make it 0 again; record that the slice may go
//	copy  wait until the slice may go; copy it, but for its head
//
// The kernel is enqueued first: what the streams wait for comes from it alone, and it waits for what they bring. So all three run at
// once, or none ends. All ranks take lines instead where that is not sure: where each launch waits for its kernel's end
// (CUDA_LAUNCH_BLOCKING), and where ranks share a device, for what one's stream waits for can keep the other's kernel from beginning.
//
// Slots. They are those of rings, and must be cleared. The kernel leaves them so, but tiles and rings do not; after those, all
// is cleared before. A graph may be replayed after anything, so in a capture what is needed always is, and elsewhere, too, once a
// capture has had some of those.
//
// The end. A rank's kernel ends when it has all that it was sent, and then the slots of the next rank may still be full. So the ranks
// meet behind it, and then all copies have been taken, too. That the caller's stream waits for those besides is for captures, to
// which the other streams must come back.

// fusedHead is how much of each slice the kernel sends: what takes it about as long as an engine needs from one copy to the next, with
// the gate between. A little more costs little, for kernel and engine are on the same link then, and less leaves that idle.
const fusedHead = 3 << 20

// fusedCommands is how many commands the gate stream gets for a slice.
const fusedCommands = 4

// ownBlocks copy a rank's own part while those of others come.
const ownBlocks = 16

// reduceFused is an all-reduce: a reduce-scatter in the output, then an all-gather.
func (b *backend) reduceFused(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	r, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), ptx.FusedFamily)
	if err != nil {
		return err
	}
	a := &b.args.fused
	a.Bytes, a.Part, a.Divisor = uint64(o.bytes), uint64(o.part), b.divisor(o.Op)
	a.Steps, a.Folds = uint32(2*b.size-2), uint32(b.size-1)
	for q := range b.size {
		d, off := b.peerIndex(q), uint64(q*o.part)
		a.Ins[d], a.Outs[d] = uint64(o.in)+off, uint64(o.out)+off
	}
	return b.launchFused(ctx, t, r.fused, &o.rule, s)
}

// scatterFused is a reduce-scatter of even parts between two ranks: each sends the other's, and folds what it takes with its own.
func (b *backend) scatterFused(ctx context.Context, t cuda.Thread, c *pg.Call, r *reducers, rule *Rule, s cuda.Stream) error {
	a, x, out := &b.args.fused, &b.args.scatter, uint64(addressOf(c.Out))
	a.Bytes, a.Part, a.Divisor = x.Bytes[0]+x.Bytes[1], x.Bytes[0], b.divisor(c.Op)
	a.Steps, a.Folds = 1, 1
	a.Ins[0], a.Ins[1], a.Outs[0], a.Outs[1] = x.Offset[1], x.Offset[0], out, out
	return b.launchFused(ctx, t, r.fused, rule, s)
}

// rootFused is a reduce between two ranks: the root folds what the other one hands it.
func (b *backend) rootFused(ctx context.Context, t cuda.Thread, c *pg.Call, r *reducers, rule *Rule, s cuda.Stream) error {
	a, x, root := &b.args.fused, &b.args.scatter, b.peerIndex(c.Root)
	a.Bytes, a.Part, a.Divisor = x.Bytes[root], x.Bytes[root], b.divisor(c.Op)
	a.Steps, a.Folds = 1, 1
	a.Ins[0], a.Outs[0], a.Chain = x.Offset[root], x.Offset[root], ptx.ChainRoot
	if b.rank == c.Root {
		a.Outs[0], a.Chain = uint64(addressOf(c.Out)), ptx.ChainLast
	}
	err := b.launchFused(ctx, t, r.fused, rule, s)
	a.Chain = 0
	return err
}

// exchangeFused is an all-gather of even parts, or between two ranks an all-to-all. The own part is copied meanwhile, by few blocks:
// more would take memory's time from what comes in, and be done too early.
func (b *backend) exchangeFused(ctx context.Context, t cuda.Thread, e *move, rule *Rule, s cuda.Stream) error {
	a, x, part, side := &b.args.fused, &b.args.exchange, uint64(e.longest), &b.streams.ring.fold
	a.Bytes, a.Part, a.Steps, a.Folds = uint64(b.size)*part, part, uint32(b.size-1), 0
	own, out, sent := x.Send[0], x.Recv[0], x.Send[0]
	if e.coll == plan.AllToAll {
		sent = x.Send[1]
	}
	a.Outs = x.Recv
	for d := range b.size {
		a.Ins[d] = sent
	}
	if own == out {
		return b.launchFused(ctx, t, b.code.move.moveFused, rule, s)
	}
	b.args.copy = ptx.CopyArgs{Out: out, In: own, Bytes: part}
	return first(b.makeCopyRing(ctx, t), follow(t, side.stream, s, side.event),
		t.Launch(b.code.move.copy.Function, cuda.Grid{Blocks: ownBlocks, Threads: 512}, unsafe.Pointer(&b.args.copy), side.stream),
		b.launchFused(ctx, t, b.code.move.moveFused, rule, s), follow(t, s, side.stream, side.event))
}

// broadcastFused hands a tensor on from the root to the rank after it, and so on.
func (b *backend) broadcastFused(ctx context.Context, t cuda.Thread, root int, x colligo.Tensor, rule *Rule, s cuda.Stream) error {
	a, at := &b.args.fused, uint64(addressOf(x))
	a.Ins[0], a.Outs[0], a.Bytes, a.Part = at, at, uint64(x.Size()), uint64(x.Size())
	a.Steps, a.Folds = 1, 0
	switch before, after := b.neighbours(root); {
	case before == 0:
		a.Chain = ptx.ChainRoot
	case after == 0:
		a.Chain = ptx.ChainLast
	default:
		a.Chain = ptx.ChainMiddle
	}
	err := b.launchFused(ctx, t, b.code.move.moveFused, rule, s)
	a.Chain = 0
	return err
}

// launchFused enqueues what args.follow says.
func (b *backend) launchFused(ctx context.Context, t cuda.Thread, k kernel, rule *Rule, s cuda.Stream) error {
	if err := b.makeCopyRing(ctx, t); err != nil {
		return err
	}
	a, streams := &b.args.fused, &b.streams.ring
	b.cutSlices(rule)
	streams.around = false
	grid := cuda.Grid{Blocks: uint32(min(rule.Blocks, b.multiprocessors-1)) + 1, Threads: uint32(rule.Threads)}
	if err := first(b.clearSlots(t, s), t.Record(streams.gate.event, s), b.code.launchOnce(t, k, grid, unsafe.Pointer(a), s)); err != nil {
		return err
	}
	if a.Head < a.Slice && a.Chain != ptx.ChainLast {
		if err := first(t.WaitEvent(streams.gate.stream, streams.gate.event), b.copySlices(t), follow(t, s, streams.copy.stream, streams.copy.event)); err != nil {
			return err
		}
	}
	return b.meetPeers(t, s)
}

// cutSlices cuts parts into slices of about one length, at least two, each as large as a slot at most. If this rank's tensors do
// not lie at multiples of 16, the kernel sends all.
func (b *backend) cutSlices(rule *Rule) {
	a, most := &b.args.fused, b.layout.ringSlot
	if rule.Tile > 0 {
		most = min(most, up(rule.Tile, ptx.SentinelSpan))
	}
	part := int(a.Part)
	slices := max((part+most-1)/most, 2)
	slice := up((part+slices-1)/slices, ptx.SentinelSpan)
	a.Slice, a.Head = uint64(slice), uint64(min(fusedHead, down(slice/2, ptx.SentinelSpan)))
	at, parts := uint64(0), b.size
	if a.Chain != 0 {
		parts = 1
	}
	for d := range parts {
		at |= a.Ins[d] | a.Outs[d]
	}
	if at%16 != 0 {
		a.Head = math.MaxUint64
	}
}

// copySlices has the engines send their share of each slice when the kernel lets it go.
func (b *backend) copySlices(t cuda.Thread) error {
	a, gate, copies := &b.args.fused, &b.streams.ring.gate, &b.streams.ring.copy
	for k := range int(a.Steps) * a.Slices() {
		cut, slot := a.Sent(k), uint64(k%ringSlots)
		from, to := a.Copied(cut.Bytes)
		if from == to {
			continue
		}
		at := cut.In
		if k >= a.Own() {
			at = cut.Out
		}
		word := cuda.Pointer(a.Go + 4*slot)
		if err := first(t.Wait32(gate.stream, word, 1), t.Write32(gate.stream, word, 0), follow(t, copies.stream, gate.stream, gate.event),
			t.Copy(cuda.Pointer(a.Next+slot*a.Slot+from), cuda.Pointer(at+from), int(to-from), copies.stream),
			b.weigh(t, gate.stream, fusedCommands)); err != nil {
			return err
		}
	}
	return nil
}

// clearSlots makes the slots cleared if something else may lie there.
func (b *backend) clearSlots(t cuda.Thread, s cuda.Stream) error {
	l, n := &b.layout, int(b.args.fused.Slice)
	if b.code.graphDirty || b.captured() {
		return first(b.fillSentinel(t, l.ring, n, s), b.fillSentinel(t, l.ring+l.ringSlot, n, s))
	}
	if !b.code.dirty {
		return nil
	}
	b.code.dirty = false
	return b.fillSentinel(t, l.ring, ringSlots*l.ringSlot, s)
}
