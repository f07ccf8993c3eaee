package peer

import (
	"math"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// Fused is a ring of copy engines with one kernel that goes behind them. The kernel folds the slices that have come and lets
// the next ones go. The file fused.h of the kernels proves it. Two streams work beside the caller's, on which the kernel is:
//
//	gate  wait for the kernel's word; make it 0 again; record that the slice may go
//	copy  wait until the slice may go; copy it, except its head, which the kernel sends itself
//
// The kernel is enqueued first, for the streams wait for its words, and it waits for their copies. So all three run at once, or
// none ends. Where that is not sure, all ranks take another algorithm instead. It is not sure where each launch waits for its
// kernel's end (CUDA_LAUNCH_BLOCKING). Nor is it where ranks share a device, for the stream of one rank can keep the kernel of
// another from beginning.
//
// Slots. They are the slots of copy-engine rings, and must hold sentinels. The kernel leaves sentinels, but tiles and rings
// do not. After tiles or a ring, all slots are filled first. A graph may be replayed after anything, so in a capture the
// slots in use are always filled. They are filled elsewhere, too, once a capture has had tiles or a ring in it.
//
// The end. A rank's kernel ends when it has all that it was sent. Then the slots of the next rank may still be full, so the
// ranks meet behind it, and after that all copies have been taken. The caller's stream also waits for the copies themselves:
// the other streams must come back to a capture.
//
// An all_to_all, a reduce_scatter and a reduce are for two ranks alone: among more the parts on their way would need memory.
const Fused Algorithm = "fused"

var fused = &algorithm{
	name:   Fused,
	source: "Fused",
	forms: forms{
		plan.AllReduce:     {needs: nvlink, fits: fitsFusedRing, launch: allReduceFused},
		plan.Broadcast:     {needs: nvlink, fits: fitsFusedChain, launch: broadcastFused},
		plan.AllGather:     {needs: nvlink, fits: fitsFusedExchange, launch: exchangeFused},
		plan.AllToAll:      {needs: nvlink | pair, fits: fitsFusedExchange, launch: exchangeFused},
		plan.ReduceScatter: {needs: nvlink | pair, fits: fitsFusedScatter, launch: scatterFused},
		plan.Reduce:        {needs: nvlink | pair, fits: fitsFusedChain, launch: reduceFused},
	},
	prepare: prepareFused,
}

var (
	fusedFold = foldEntryOf(ptx.FusedFamily, ptx.AllReduceFused)
	fusedMove = moveEntryOf(ptx.MoveFused)
)

const (
	// fusedHead is how much of each slice the kernel sends. That takes it about as long as an engine needs from one copy to the
	// next, with the gate between. With a little more, kernel and engine are on the same link for a while. With less the link
	// idles.
	fusedHead = 3 << 20

	fusedCommands = 4  // that the gate stream gets for a slice
	ownBlocks     = 16 // copy a rank's own part while those of others come
)

func prepareFused(x *launcher, g ptx.GroupArgs) {
	if x.size == 1 {
		return
	}
	l, h := x.layout, x.heap
	x.args.fused = ptx.FusedArgs{Group: g, Slots: uint64(h.Address(l.Ring)), Next: uint64(h.PeerAddress(x.after(), l.Ring)), Slot: uint64(l.RingSlot),
		Counts: uint64(h.Address(l.Fused)), Credit: uint64(h.Address(l.FusedCredit())), PrevCredit: uint64(h.PeerAddress(x.before(), l.FusedCredit())),
		Go: uint64(h.Address(l.ArrivedWords())), Sentinel: h.Sentinel}
}

func fitsFusedRing(x *launcher, o *operation) bool { return !x.serial && o.bytes >= x.size*leastPart }

func fitsFusedChain(x *launcher, o *operation) bool { return !x.serial && o.bytes >= leastPart }

func fitsFusedExchange(x *launcher, o *operation) bool {
	return !x.serial && o.bytes >= leastPart && o.even && o.bytes%16 == 0
}

// fitsFusedScatter reports whether both parts are as long. Both ranks say the same.
func fitsFusedScatter(x *launcher, o *operation) bool {
	even := o.even || o.Counts != nil && o.Counts[0] == o.Counts[1]
	if o.laid {
		even = x.args.scatter.Bytes[0] == x.args.scatter.Bytes[1]
	}
	return !x.serial && o.bytes >= leastPart && even && o.bytes%16 == 0
}

// allReduceFused is a reduce-scatter in the output, then an all-gather.
func allReduceFused(x *launcher, o *operation) error {
	k, err := x.fold(o, fusedFold)
	if err != nil {
		return err
	}
	a := &x.args.fused
	a.Bytes, a.Part, a.Divisor = uint64(o.bytes), uint64(o.part), x.divisor(o.Op)
	a.Steps, a.Folds = uint32(2*x.size-2), uint32(x.size-1)
	for q := range x.size {
		d, off := x.peerIndex(q), uint64(q*o.part)
		a.Ins[d], a.Outs[d] = uint64(o.in)+off, uint64(o.out)+off
	}
	return launchFused(x, o, k)
}

// scatterFused is a reduce-scatter between two ranks: each sends the other's part, and folds the part that comes with its own.
func scatterFused(x *launcher, o *operation) error {
	k, err := x.fold(o, fusedFold)
	if err != nil {
		return err
	}
	x.layParts(o)
	a, p := &x.args.fused, &x.args.scatter
	a.Bytes, a.Part, a.Divisor = p.Bytes[0]+p.Bytes[1], p.Bytes[0], p.Divisor
	a.Steps, a.Folds = 1, 1
	a.Ins[0], a.Ins[1], a.Outs[0], a.Outs[1] = p.Offset[1], p.Offset[0], p.Out, p.Out
	return launchFused(x, o, k)
}

// reduceFused is a reduce between two ranks: the root folds the slices of the other one.
func reduceFused(x *launcher, o *operation) error {
	k, err := x.fold(o, fusedFold)
	if err != nil {
		return err
	}
	x.layParts(o)
	a, p, root := &x.args.fused, &x.args.scatter, x.peerIndex(o.Root)
	a.Bytes, a.Part, a.Divisor = p.Bytes[root], p.Bytes[root], p.Divisor
	a.Steps, a.Folds = 1, 1
	a.Ins[0], a.Outs[0], a.Chain = p.Offset[root], p.Offset[root], ptx.ChainRoot
	if x.rank == o.Root {
		a.Outs[0], a.Chain = p.Out, ptx.ChainLast
	}
	err = launchFused(x, o, k)
	a.Chain = 0
	return err
}

// exchangeFused is an all-gather of even parts, or between two ranks an all-to-all. The own part is copied meanwhile, by few
// blocks: more would take memory's time from the parts that come in, and be done too early.
func exchangeFused(x *launcher, o *operation) error {
	a, e, part := &x.args.fused, x.layExchange(o), uint64(o.bytes)
	a.Bytes, a.Part, a.Steps, a.Folds = uint64(x.size)*part, part, uint32(x.size-1), 0
	own, out, sent := e.Send[0], e.Recv[0], e.Send[0]
	if o.Coll == plan.AllToAll {
		sent = e.Send[1]
	}
	a.Outs = e.Recv
	for d := range x.size {
		a.Ins[d] = sent
	}
	if own == out {
		return launchFused(x, o, x.code.move(fusedMove))
	}
	if err := x.makeEngines(o.ctx, o.t); err != nil {
		return err
	}
	x.args.copy = ptx.CopyArgs{Out: out, In: own, Bytes: part}
	side, c := &x.engines.fold, streamorder.On(o.t)
	c.Follow(side.Stream, o.s, side.Event)
	c.Do(func() error {
		return o.t.Launch(x.code.move(copyBytes).Function, cuda.Grid{Blocks: ownBlocks, Threads: 512}, unsafe.Pointer(&x.args.copy), side.Stream)
	})
	c.Do(func() error { return launchFused(x, o, x.code.move(fusedMove)) })
	c.Follow(o.s, side.Stream, side.Event)
	return c.Err
}

// broadcastFused hands a tensor on from the root to the rank after it, and so on.
func broadcastFused(x *launcher, o *operation) error {
	a := &x.args.fused
	a.Ins[0], a.Outs[0], a.Bytes, a.Part = uint64(o.in), uint64(o.out), uint64(o.bytes), uint64(o.bytes)
	a.Steps, a.Folds = 1, 0
	switch before, after := x.neighbours(o.Root); {
	case before == 0:
		a.Chain = ptx.ChainRoot
	case after == 0:
		a.Chain = ptx.ChainLast
	default:
		a.Chain = ptx.ChainMiddle
	}
	err := launchFused(x, o, x.code.move(fusedMove))
	a.Chain = 0
	return err
}

// launchFused enqueues the operation that args.fused describes.
func launchFused(x *launcher, o *operation, k *kernel) error {
	if err := x.makeEngines(o.ctx, o.t); err != nil {
		return err
	}
	a, e := &x.args.fused, &x.engines
	cutFused(x, o.rule)
	e.around = false
	grid := cuda.Grid{Blocks: uint32(min(o.rule.Blocks, x.multiprocessors-1)) + 1, Threads: uint32(o.rule.Threads)}
	if err := clearFused(x, o); err != nil {
		return err
	}
	c := streamorder.On(o.t)
	c.Record(e.gate.Event, o.s)
	c.Do(func() error { return x.code.launchOnce(o.t, k, grid, unsafe.Pointer(a), o.s) })
	if a.Head < a.Slice && a.Chain != ptx.ChainLast {
		c.WaitEvent(e.gate.Stream, e.gate.Event)
		c.Do(func() error { return copyFused(x, o.t) })
		c.Follow(o.s, e.copy.Stream, e.copy.Event)
	}
	c.Do(func() error { return x.meet(o.t, o.s) })
	return c.Err
}

// cutFused cuts parts into slices of about one length, at least two, each as large as a slot at most. If this rank's tensors do
// not lie at multiples of 16, the kernel sends all.
func cutFused(x *launcher, r *Rule) {
	a, most := &x.args.fused, x.layout.RingSlot
	if r.Tile > 0 {
		most = min(most, up(r.Tile, ptx.SentinelSpan))
	}
	part := int(a.Part)
	slices := max((part+most-1)/most, 2)
	slice := up((part+slices-1)/slices, ptx.SentinelSpan)
	a.Slice, a.Head = uint64(slice), uint64(min(fusedHead, down(slice/2, ptx.SentinelSpan)))
	at, parts := uint64(0), x.size
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

// copyFused has the engines send their share of each slice when the kernel lets it go.
func copyFused(x *launcher, t cuda.Thread) error {
	a, gate, copies := &x.args.fused, &x.engines.gate, &x.engines.copy
	for k := range int(a.Steps) * a.Slices() {
		cut, slot := a.Sent(k), uint64(k%symheap.RingSlots)
		from, to := a.Copied(cut.Bytes)
		if from == to {
			continue
		}
		at := cut.In
		if k >= a.Own() {
			at = cut.Out
		}
		word, c := cuda.Pointer(a.Go+4*slot), streamorder.On(t)
		c.Wait32(gate.Stream, word, 1)
		c.Write32(gate.Stream, word, 0)
		c.Follow(copies.Stream, gate.Stream, gate.Event)
		c.Copy(cuda.Pointer(a.Next+slot*a.Slot+from), cuda.Pointer(at+from), int(to-from), copies.Stream)
		if c.Err != nil {
			return c.Err
		}
		if err := x.order.Throttle(t, gate.Stream, fusedCommands); err != nil {
			return err
		}
	}
	return nil
}

// clearFused fills the slots with sentinels if something else may lie there.
func clearFused(x *launcher, o *operation) error {
	l, n := x.layout, int(x.args.fused.Slice)
	if x.code.graphDirty || o.captured() {
		if err := x.heap.FillSentinel(o.t, l.Ring, n, o.s); err != nil {
			return err
		}
		return x.heap.FillSentinel(o.t, l.Ring+l.RingSlot, n, o.s)
	}
	if !x.code.dirty {
		return nil
	}
	x.code.dirty = false
	return x.heap.FillSentinel(o.t, l.Ring, symheap.RingSlots*l.RingSlot, o.s)
}
