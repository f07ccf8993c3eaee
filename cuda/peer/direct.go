package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// Direct stores results in the peers' outputs, which lie in registered memory: an all-reduce from tiles, a broadcast in a
// chain, exchanges without the heap.
const Direct Algorithm = "direct"

var direct = &algorithm{
	name:       Direct,
	source:     "Direct",
	registered: true,
	forms: forms{
		plan.AllReduce: {launch: allReduceDirect},
		plan.Broadcast: {launch: broadcastDirect},
		plan.AllGather: {launch: exchangeDirect},
		plan.AllToAll:  {launch: exchangeDirect},
	},
	prepare: prepareDirect,
}

var (
	directExchange  = moveEntryOf(ptx.ExchangeDirect)
	directAllReduce = foldEntryOf(ptx.DirectFamily, ptx.AllReduceDirect)
)

func prepareDirect(x *launcher, g ptx.GroupArgs) {
	marks := uint64(ptx.FlagBytes(symheap.MaxBlocks))
	x.args.direct.Group, x.args.direct.Marks = g, marks
	x.args.into.Group, x.args.into.Marks = g, marks
}

func allReduceDirect(x *launcher, o *operation) error { return launchDirect(x, o, o.bytes, o.part) }

// meetDirect has the ranks meet, and compare which place of registered memory each means: a direct kernel without elements.
func meetDirect(x *launcher, o *operation) error { return launchDirect(x, o, 0, 16) }

func launchDirect(x *launcher, o *operation, bytes, part int) error {
	k, err := x.fold(o, directAllReduce)
	if err != nil {
		return err
	}
	a := &x.args.direct
	a.In, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(bytes), uint64(part), x.divisor(o.Op)
	a.Mark = o.window.Mark(o.out, o.bytes)
	for q := range x.size {
		a.Outs[x.peerIndex(q)] = uint64(o.window.PeerAt(q, o.out))
	}
	var grid cuda.Grid
	grid, a.Tile = x.twoPhaseGrid(o.rule, part)
	return x.launch(o, k, grid, unsafe.Pointer(a))
}

// broadcastDirect is a chain from output to output.
func broadcastDirect(x *launcher, o *operation) error {
	a := &x.args.chain
	a.Direct, a.Mark, a.Next = 1, o.window.Mark(o.out, o.bytes), uint64(o.window.PeerAt(x.after(), o.out))
	return launchChain(x, o)
}

func exchangeDirect(x *launcher, o *operation) error {
	e, a := x.layExchange(o), &x.args.into
	a.Send, a.SendBytes, a.Mark = e.Send, e.SendBytes, o.window.Mark(o.out, o.Out.Size())
	for q := range x.size {
		a.Recv[x.peerIndex(q)] = uint64(o.window.PeerAt(q, o.out)) + uint64(o.offset)
	}
	return x.launch(o, x.code.move(directExchange), o.rule.threadGrid(o.bytes), unsafe.Pointer(a))
}

// meetExchange has the ranks meet and compare marks: an exchange into registered outputs without elements.
func meetExchange(x *launcher, o *operation) error {
	a := &x.args.into
	clear(a.SendBytes[:])
	a.Mark = o.window.Mark(o.out, o.Out.Size())
	return x.launch(o, x.code.move(directExchange), cuda.Grid{Blocks: 1, Threads: 32 * ptx.MaxRanks}, unsafe.Pointer(a))
}
