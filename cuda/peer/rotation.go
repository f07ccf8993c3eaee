package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// Rotation pushes tiles to one peer after the other, the ranks each to another, so that no link has two senders. Tiles do it
// where the parts' lengths differ.
const Rotation Algorithm = "rotation"

var rotation = &algorithm{
	name:   Rotation,
	source: "Rotation",
	forms:  forms{plan.AllGather: {fits: fitsRotation, launch: exchangeRotation}, plan.AllToAll: {fits: fitsRotation, launch: exchangeRotation}},
}

var rotationExchange = moveEntryOf(ptx.ExchangeRotation)

func fitsRotation(_ *launcher, o *operation) bool { return o.even }

func exchangeRotation(x *launcher, o *operation) error {
	a := x.layExchange(o)
	var grid cuda.Grid
	grid, a.Tile, a.Pieces = x.rotationGrid(o.rule, o.bytes)
	return x.launch(o, x.code.move(rotationExchange), grid, unsafe.Pointer(a))
}

// rotationDepth is how many tiles of a pair a block has room for at least. The sender of a tile knows that it was used about
// as late as two more tiles take.
const rotationDepth = 4

// leastRotation is the fewest threads of a block: one warp sends, one receives.
const leastRotation = 64

// rotationGrid returns grid and tile for kernels that send to one peer at a time. Their blocks share out all tile memory of a
// pair, so tiles may be larger, the more so the fewer blocks there are. Each block has so many pieces of it.
func (x *launcher) rotationGrid(r *Rule, part int) (g cuda.Grid, tile, pieces uint32) {
	n := ptx.TilePieces(symheap.MaxBlocks, r.Blocks)
	most := down(symheap.TileDepth*x.layout.TileSlot/max((rotationDepth+n-1)/n, 1), 16)
	g, tile = r.tileGrid(most, part)
	g.Threads = max(g.Threads, leastRotation)
	return g, tile, uint32(n)
}
