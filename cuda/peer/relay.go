package peer

import (
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// relayDepth is how many tiles of a pair a relay's block has room for at least. The sender of a tile knows that it was used
// about as late as two more tiles take.
const relayDepth = 4

// leastRelay is the fewest threads of a relay's block: one warp sends, one receives.
const leastRelay = 64

// relayGrid is tileGrid for relays: their blocks share out all tile memory of a pair, so that tiles may be larger, the more
// so the fewer blocks there are. pieces is how much of it each block has.
func (b *backend) relayGrid(c *Choice, part int) (g cuda.Grid, tile, pieces uint32) {
	n := ptx.TilePieces(maxBlocks, c.Blocks)
	most := down(tileDepth*b.layout.tileSlot/max((relayDepth+n-1)/n, 1), 16)
	g, tile = c.tileGrid(most, part)
	g.Threads = max(g.Threads, leastRelay)
	return g, tile, uint32(n)
}
