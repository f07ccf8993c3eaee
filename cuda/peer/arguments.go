package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// arguments are the structs that kernels are launched with, one of each. What is the same in every launch is filled in
// when the backend is opened; the driver has copied the rest when a launch returns.
type arguments struct {
	allReduce ptx.AllReduceArgs
	rows      ptx.RowsArgs
	direct    ptx.DirectArgs
	scatter   ptx.ReduceScatterArgs
	exchange  ptx.ExchangeArgs
	even      ptx.EvenArgs
	into      ptx.DirectExchangeArgs
	broadcast ptx.BroadcastArgs
	chain     ptx.ChainArgs
	rowChain  ptx.RowChainArgs
	lines     ptx.LinesArgs
	letter    ptx.LinesArgs
	mail      ptx.MailArgs
	swap      ptx.SwapArgs
	follow    ptx.FollowArgs
	reduce    ptx.ReduceArgs
	copy      ptx.CopyArgs
	unary     ptx.UnaryArgs
}

func newArguments(b *backend) *arguments {
	l := &b.layout
	g := ptx.GroupArgs{State: uint64(b.heap) + uint64(l.state), Stop: uint64(b.stop.Device), Rank: uint32(b.rank),
		Size: uint32(b.size), PacketSlot: uint32(l.packetSlot), TileSlot: uint32(l.tileSlot)}
	a := &arguments{}
	for q := range b.peers {
		at, d := uint64(b.peers[q].at), b.place(q)
		a.rows.Rows[d] = at + uint64(l.rows)
		g.Packets[d], g.Tiles[d], g.Flags[d] = at+uint64(l.packets), at+uint64(l.tiles), at+uint64(l.flags)
	}
	a.rows.Group, a.direct.Group = g, g
	a.rowChain.Group, a.rowChain.Rows, a.rowChain.Slot = g, a.rows.Rows, uint32(l.rowSlot)
	a.into.Group, a.chain.Group = g, g
	a.rows.Slot, a.direct.Marks = uint32(l.rowSlot), uint64(ptx.FlagBytes(maxBlocks))
	a.into.Marks, a.chain.Marks = a.direct.Marks, a.direct.Marks
	a.allReduce.Group, a.scatter.Group, a.exchange.Group, a.even.Group, a.broadcast.Group = g, g, g, g, g
	a.lines = ptx.LinesArgs{Group: g, Lines: uint64(b.heap) + uint64(l.lines), Counts: uint64(b.heap) + uint64(l.counts),
		Signs: uint64(b.heap) + uint64(l.signs), Blank: b.blank, Places: uint32(l.places), Blocks: uint32(l.blocks), Before: uint32(b.size - 1), After: 1}
	a.letter = ptx.LinesArgs{Group: g, Blank: b.blank, Places: letterPlaces, Blocks: uint32(l.mailBlocks)}
	a.swap = ptx.SwapArgs{Out: a.letter, In: a.letter, Carries: g.State + 16}
	a.mail.Stop = g.Stop
	if b.size > 1 {
		a.lines.Next = uint64(b.peers[(b.rank+1)%b.size].at) + uint64(l.lines)
		a.lines.Told = uint64(b.peers[(b.rank+b.size-1)%b.size].at) + uint64(l.signs)
		a.follow = b.followArguments(g)
	}
	a.reduce.Sources = 2
	return a
}

// followArguments returns those of what goes behind copy engines.
func (b *backend) followArguments(g ptx.GroupArgs) ptx.FollowArgs {
	l, here := &b.layout, uint64(b.heap)
	before, next := uint64(b.peers[(b.rank+b.size-1)%b.size].at), uint64(b.peers[(b.rank+1)%b.size].at)
	return ptx.FollowArgs{Group: g, Slots: here + uint64(l.ring), Next: next + uint64(l.ring), Slot: uint64(l.ringSlot),
		Counts: here + uint64(l.follow), Freed: here + uint64(l.freed()), Told: before + uint64(l.freed()), Go: here + uint64(l.arrivedWords()), Blank: b.blank}
}

// place returns where a rank stands in arrays that are turned.
func (b *backend) place(rank int) int { return (rank - b.rank + b.size) % b.size }

// threadGrid returns a grid with a thread for each line of 16 bytes, or as many as the choice allows.
func (c *Choice) threadGrid(bytes int) cuda.Grid {
	lines := (bytes + 15) / 16
	blocks := max((lines+c.Threads-1)/c.Threads, 1)
	return cuda.Grid{Blocks: uint32(min(blocks, c.Blocks)), Threads: uint32(c.Threads)}
}

// packetGrid is threadGrid for the kernels that fold packets, which take a multiprocessor's registers with one block.
func (c *Choice) packetGrid(bytes, multiprocessors int) cuda.Grid {
	fitting := Choice{Blocks: min(c.Blocks, multiprocessors), Threads: min(c.Threads, ptx.FoldThreads)}
	return fitting.threadGrid(bytes)
}

// quadGrid returns a grid with a warp for each quad of rows, or as many as the choice allows, as many quads for each, spread
// over the multiprocessors. All blocks have to be on the device at once, for they wait for one another by way of the peers:
// 512 threads of a multiprocessor are sure to be.
func (c *Choice) quadGrid(bytes, multiprocessors int) cuda.Grid {
	quads := (bytes + ptx.RowData - 1) / ptx.RowData
	most := min(c.Blocks*c.Threads, multiprocessors*512) / 32
	rounds := (quads + most - 1) / most
	warps := (quads + rounds - 1) / rounds
	block := min(max((warps+multiprocessors-1)/multiprocessors, 2), c.Threads/32)
	return cuda.Grid{Blocks: uint32(min((warps+block-1)/block, most/block)), Threads: uint32(32 * block)}
}

// lineGrid returns a grid with a warp for each strip of 512 bytes, or as many as choice and heap allow: all blocks have to be on the
// device at once.
func (b *backend) lineGrid(c *Choice, bytes int) cuda.Grid {
	strips, blocks := (bytes+511)/512, min(c.Blocks, b.layout.blocks, b.multiprocessors)
	block := min((strips+blocks-1)/blocks, c.Threads/32)
	return cuda.Grid{Blocks: uint32(min((strips+block-1)/block, blocks)), Threads: uint32(32 * block)}
}

// leastThreads of a block by tiles are a warp for each of its teams.
const leastThreads = 64

// leastTile is the smallest piece for which a block is worth its barriers, in bytes.
const leastTile = 2 << 10

// tileGrid returns grid and tile for parts of at most so many bytes: small ones are cut so that all blocks get a tile.
func (b *backend) tileGrid(c *Choice, part int) (cuda.Grid, uint32) {
	return c.tileGrid(b.layout.tileSlot, part)
}

// twoPhaseGrid is tileGrid for an all-reduce: with two tiles for each block at least, if they are not small, for the second of a
// block is on its way while the first is folded.
func (b *backend) twoPhaseGrid(c *Choice, part int) (cuda.Grid, uint32) {
	half := up((part+2*c.Blocks-1)/(2*c.Blocks), 512)
	return c.tileGrid(min(b.layout.tileSlot, max(half, 8<<10)), part)
}

// tileGrid is the backend's for tiles of at most so many bytes.
func (c *Choice) tileGrid(most, part int) (cuda.Grid, uint32) {
	if c.Tile > 0 {
		most = min(most, up(c.Tile, 16))
	}
	rounds := (part + c.Blocks*most - 1) / (c.Blocks * most) // as many tiles for each block
	tile := min(max(up((part+c.Blocks*rounds-1)/(c.Blocks*rounds), 512), leastTile), most)
	blocks := max(min((part+tile-1)/tile, c.Blocks), 1)
	return cuda.Grid{Blocks: uint32(blocks), Threads: uint32(max(c.Threads, leastThreads))}, uint32(tile)
}

// moveGrid is for kernels that touch this device only.
func moveGrid(bytes int) cuda.Grid {
	return cuda.Grid{Blocks: uint32(min(bytes/(512*64)+1, 64)), Threads: 512}
}

// copy enqueues the copy of a tensor on the own device.
func (b *backend) copy(t cuda.Thread, out, in cuda.Pointer, bytes int, s cuda.Stream) error {
	if out == in || bytes == 0 {
		return nil
	}
	b.args.copy = ptx.CopyArgs{Out: uint64(out), In: uint64(in), Bytes: uint64(bytes)}
	return b.code.launch(t, b.code.move.copy, moveGrid(bytes), unsafe.Pointer(&b.args.copy), s)
}
