package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// LL128 is NCCL's protocol of that name: 120 of 128 bytes are data, the rest a flag. It relies on NVLink, by which 128 bytes of
// a warp arrive together. A sum is everything to everybody, added in rank order: each of n ranks stores 16/15·(n-1)·B bytes.
// A broadcast goes from rank to rank, so that no rank sends the tensor more than once.
const LL128 Algorithm = "ll128"

var ll128 = &algorithm{
	name:   LL128,
	source: "LL128",
	forms: forms{
		plan.AllReduce: {fits: fitsLL128, launch: allReduceLL128},
		plan.Broadcast: {needs: nvlink, fits: fitsLL128, launch: broadcastLL128},
	},
	prepare: prepareLL128,
}

var (
	ll128AllReduce = foldEntryOf(ptx.LL128Family, ptx.AllReduceLL128)
	ll128Broadcast = moveEntryOf(ptx.BroadcastLL128)
)

func prepareLL128(x *launcher, g ptx.GroupArgs) {
	a, l := x.args, x.layout
	a.ll128.Group, a.ll128.Slot = g, uint32(l.LL128Slot)
	for q := range x.size {
		a.ll128.LL128[x.peerIndex(q)] = uint64(x.heap.PeerAddress(q, l.LL128))
	}
	a.ll128Chain.Group, a.ll128Chain.LL128, a.ll128Chain.Slot = g, a.ll128.LL128, uint32(l.LL128Slot)
}

// ll128Bytes returns how many bytes n bytes take with their flags.
func ll128Bytes(n int) int { return (n + ptx.LL128Data - 1) / ptx.LL128Data * ptx.LL128Chunk }

// fitsLL128 reports whether a round has room in a slot. LL128 goes in rounds, in which each warp has room for a chunk at least.
// Where it takes another algorithm's place, one round is to have all.
func fitsLL128(x *launcher, o *operation) bool {
	round := ll128Bytes(o.bytes)
	if o.rule.Algorithm == LL128 {
		g := o.rule.ll128Grid(o.bytes, x.multiprocessors)
		round = min(round, int(g.Blocks*g.Threads/32)*ptx.LL128Chunk)
	}
	return x.linked && round <= x.layout.LL128Slot
}

func allReduceLL128(x *launcher, o *operation) error {
	return reduceLL128(x, o, ll128AllReduce, o.bytes)
}

// reduceLL128 launches an all-reduce that stores so many bytes.
func reduceLL128(x *launcher, o *operation, e foldEntry, stored int) error {
	k, err := x.fold(o, e)
	if err != nil {
		return err
	}
	a := &x.args.ll128
	a.In, a.Out, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(o.out), uint64(o.bytes), uint64(o.part), x.divisor(o.Op)
	return x.launch(o, k, o.rule.ll128Grid(stored, x.multiprocessors), unsafe.Pointer(a))
}

// broadcastLL128 is no graph: its hops take a device longer than a launch its host.
func broadcastLL128(x *launcher, o *operation) error {
	a := &x.args.ll128Chain
	a.In, a.Out, a.Bytes = uint64(o.in), uint64(o.out), uint64(o.bytes)
	a.Before, a.After = x.neighbours(o.Root)
	return x.code.launchOnce(o.t, x.code.move(ll128Broadcast), o.rule.ll128Grid(o.bytes, x.multiprocessors), unsafe.Pointer(a), o.s)
}

// ll128Grid returns a grid with a warp for each chunk, or as many as the rule allows. Warps have equally many chunks, and are
// spread over the multiprocessors. All blocks have to be on the device at once, for they wait for one another by way of the
// peers. A multiprocessor is sure to hold 512 threads.
func (r *Rule) ll128Grid(bytes, multiprocessors int) cuda.Grid {
	chunks := (bytes + ptx.LL128Data - 1) / ptx.LL128Data
	most := min(r.Blocks*r.Threads, multiprocessors*512) / 32
	rounds := (chunks + most - 1) / most
	warps := (chunks + rounds - 1) / rounds
	block := min(max((warps+multiprocessors-1)/multiprocessors, 2), r.Threads/32)
	return cuda.Grid{Blocks: uint32(min((warps+block-1)/block, most/block)), Threads: uint32(32 * block)}
}
