package peer

import (
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// rotationDepth is how many tiles of a pair a rotation's block has room for at least. The sender of a tile knows that it was used
// about as late as two more tiles take.
const rotationDepth = 4

// leastRotation is the fewest threads of a rotation's block: one warp sends, one receives.
const leastRotation = 64

// rotationGrid is tileGrid for rotations: their blocks share out all tile memory of a pair, so that tiles may be larger, the more
// so the fewer blocks there are. pieces is how much of it each block has.
func (b *backend) rotationGrid(c *Rule, part int) (g cuda.Grid, tile, pieces uint32) {
	n := ptx.TilePieces(maxBlocks, c.Blocks)
	most := down(tileDepth*b.layout.tileSlot/max((rotationDepth+n-1)/n, 1), 16)
	g, tile = c.tileGrid(most, part)
	g.Threads = max(g.Threads, leastRotation)
	return g, tile, uint32(n)
}
