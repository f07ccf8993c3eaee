package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// Chain broadcasts by tiles from rank to rank, so that no rank sends the tensor more than once.
const Chain Algorithm = "chain"

var chain = &algorithm{
	name:    Chain,
	source:  "Chain",
	forms:   forms{plan.Broadcast: {launch: broadcastChain}},
	prepare: prepareChain,
}

var chainBroadcast = moveEntryOf(ptx.BroadcastChain)

func prepareChain(x *launcher, g ptx.GroupArgs) {
	x.args.chain.Group, x.args.chain.Marks = g, uint64(ptx.FlagBytes(symheap.MaxBlocks))
}

func broadcastChain(x *launcher, o *operation) error {
	x.args.chain.Direct = 0
	return launchChain(x, o)
}

// launchChain hands a tensor on from the root to the rank after it, and so on.
func launchChain(x *launcher, o *operation) error {
	a := &x.args.chain
	a.In, a.Out, a.Bytes = uint64(o.in), uint64(o.out), uint64(o.bytes)
	a.Before, a.After = x.neighbours(o.Root)
	var grid cuda.Grid
	grid, a.Tile, a.Pieces = x.rotationGrid(o.rule, o.bytes)
	return x.launch(o, x.code.move(chainBroadcast), grid, unsafe.Pointer(a))
}
