package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// Sentinel goes from rank to rank with no flags. A receiver sees that 16 bytes have come because they are no longer the
// group's random sentinel. It relies on NVLink, by which 16 bytes arrive together. An all-reduce goes round the ring, so its
// sums are in the order of package ring, and each of n ranks stores 2(n-1)/n·B bytes. A broadcast goes from the root on.
const Sentinel Algorithm = "sentinel"

var sentinel = &algorithm{
	name:   Sentinel,
	source: "Sentinel",
	forms: forms{
		plan.AllReduce: {needs: nvlink, launch: allReduceSentinel},
		plan.Broadcast: {needs: nvlink, launch: broadcastSentinel},
	},
	prepare: prepareSentinel,
}

var (
	sentinelAllReduce = foldEntryOf(ptx.SentinelFamily, ptx.AllReduceSentinel)
	sentinelBroadcast = moveEntryOf(ptx.BroadcastSentinel)
)

func prepareSentinel(x *launcher, g ptx.GroupArgs) {
	l, h := x.layout, x.heap
	x.args.sentinel = ptx.SentinelArgs{Group: g, Memory: uint64(h.Address(l.Sentinel)), Counts: uint64(h.Address(l.Counts)),
		Credits: uint64(h.Address(l.Credits)), Sentinel: h.Sentinel, Slots: uint32(l.SentinelSlots), Blocks: uint32(l.SentinelBlocks),
		Before: uint32(x.size - 1), After: 1}
	if x.size > 1 {
		x.args.sentinel.Next = uint64(h.PeerAddress(x.after(), l.Sentinel))
		x.args.sentinel.PrevCredits = uint64(h.PeerAddress(x.before(), l.Credits))
	}
}

func allReduceSentinel(x *launcher, o *operation) error {
	k, err := x.fold(o, sentinelAllReduce)
	if err != nil {
		return err
	}
	a := &x.args.sentinel
	a.In, a.Out, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(o.out), uint64(o.bytes), uint64(o.part), x.divisor(o.Op)
	return x.launch(o, k, x.sentinelGrid(o.rule, o.part), unsafe.Pointer(a))
}

func broadcastSentinel(x *launcher, o *operation) error {
	a := &x.args.sentinel
	a.In, a.Out, a.Bytes, a.Ends = uint64(o.in), uint64(o.out), uint64(o.bytes), 0
	switch before, after := x.neighbours(o.Root); {
	case before == 0:
		a.Ends = ptx.EndRoot
	case after == 0:
		a.Ends = ptx.EndLast
	}
	return x.launch(o, x.code.move(sentinelBroadcast), x.sentinelGrid(o.rule, o.bytes), unsafe.Pointer(a))
}

// sentinelGrid returns a grid with a warp for each chunk of 512 bytes, or as many as rule and heap allow. All blocks have to be
// on the device at once.
func (x *launcher) sentinelGrid(r *Rule, bytes int) cuda.Grid {
	chunks, blocks := (bytes+511)/512, min(r.Blocks, x.layout.SentinelBlocks, x.multiprocessors)
	block := min((chunks+blocks-1)/blocks, r.Threads/32)
	return cuda.Grid{Blocks: uint32(min((chunks+block-1)/block, blocks)), Threads: uint32(32 * block)}
}
