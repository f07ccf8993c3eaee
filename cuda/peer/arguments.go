package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// arguments are the structs that kernels are launched with, one of each. What is the same in every launch is filled in
// when the backend is opened; the driver has copied the rest when a launch returns.
type arguments struct {
	allReduce  ptx.AllReduceArgs
	ll128      ptx.LL128Args
	direct     ptx.DirectArgs
	scatter    ptx.ReduceScatterArgs
	exchange   ptx.ExchangeArgs
	even       ptx.EvenArgs
	into       ptx.DirectExchangeArgs
	broadcast  ptx.BroadcastArgs
	chain      ptx.ChainArgs
	ll128Chain ptx.LL128ChainArgs
	sentinel   ptx.SentinelArgs
	rendezvous ptx.SentinelArgs
	eager      ptx.EagerArgs
	sendRecv   ptx.SendRecvArgs
	fused      ptx.FusedArgs
	reduce     ptx.ReduceArgs
	copy       ptx.CopyArgs
	unary      ptx.UnaryArgs
}

func newArguments(b *backend) *arguments {
	l := &b.layout
	g := ptx.GroupArgs{State: uint64(b.heap) + uint64(l.state), Abort: uint64(b.abort.Device), Rank: uint32(b.rank),
		Size: uint32(b.size), LLSlot: uint32(l.llSlot), TileSlot: uint32(l.tileSlot)}
	a := &arguments{}
	for q := range b.peers {
		at, d := uint64(b.peers[q].at), b.peerIndex(q)
		a.ll128.LL128[d] = at + uint64(l.ll128)
		g.LL[d], g.Tiles[d], g.Flags[d] = at+uint64(l.ll), at+uint64(l.tiles), at+uint64(l.flags)
	}
	a.ll128.Group, a.direct.Group = g, g
	a.ll128Chain.Group, a.ll128Chain.LL128, a.ll128Chain.Slot = g, a.ll128.LL128, uint32(l.ll128Slot)
	a.into.Group, a.chain.Group = g, g
	a.ll128.Slot, a.direct.Marks = uint32(l.ll128Slot), uint64(ptx.FlagBytes(maxBlocks))
	a.into.Marks, a.chain.Marks = a.direct.Marks, a.direct.Marks
	a.allReduce.Group, a.scatter.Group, a.exchange.Group, a.even.Group, a.broadcast.Group = g, g, g, g, g
	a.sentinel = ptx.SentinelArgs{Group: g, Memory: uint64(b.heap) + uint64(l.sentinel), Counts: uint64(b.heap) + uint64(l.counts),
		Credits: uint64(b.heap) + uint64(l.credits), Sentinel: b.sentinel, Slots: uint32(l.sentinelSlots), Blocks: uint32(l.sentinelBlocks), Before: uint32(b.size - 1), After: 1}
	a.rendezvous = ptx.SentinelArgs{Group: g, Sentinel: b.sentinel, Slots: rendezvousSlots, Blocks: uint32(l.rendezvousBlocks)}
	a.sendRecv = ptx.SendRecvArgs{Out: a.rendezvous, In: a.rendezvous, Carried: g.State + 16}
	a.eager.Abort = g.Abort
	if b.size > 1 {
		a.sentinel.Next = uint64(b.peers[(b.rank+1)%b.size].at) + uint64(l.sentinel)
		a.sentinel.PrevCredits = uint64(b.peers[(b.rank+b.size-1)%b.size].at) + uint64(l.credits)
		a.fused = b.fusedArguments(g)
	}
	a.reduce.Sources = 2
	return a
}

// fusedArguments returns those of what goes behind copy engines.
func (b *backend) fusedArguments(g ptx.GroupArgs) ptx.FusedArgs {
	l, here := &b.layout, uint64(b.heap)
	before, next := uint64(b.peers[(b.rank+b.size-1)%b.size].at), uint64(b.peers[(b.rank+1)%b.size].at)
	return ptx.FusedArgs{Group: g, Slots: here + uint64(l.ring), Next: next + uint64(l.ring), Slot: uint64(l.ringSlot),
		Counts: here + uint64(l.fused), Credit: here + uint64(l.fusedCredit()), PrevCredit: before + uint64(l.fusedCredit()), Go: here + uint64(l.arrivedWords()), Sentinel: b.sentinel}
}

// peerIndex returns where a rank stands in arrays indexed by peer.
func (b *backend) peerIndex(rank int) int { return (rank - b.rank + b.size) % b.size }

// threadGrid returns a grid with a thread for each line of 16 bytes, or as many as the rule allows.
func (c *Rule) threadGrid(bytes int) cuda.Grid {
	lines := (bytes + 15) / 16
	blocks := max((lines+c.Threads-1)/c.Threads, 1)
	return cuda.Grid{Blocks: uint32(min(blocks, c.Blocks)), Threads: uint32(c.Threads)}
}

// llGrid is threadGrid for the kernels that fold LL packets, which take a multiprocessor's registers with one block.
func (c *Rule) llGrid(bytes, multiprocessors int) cuda.Grid {
	fitting := Rule{Blocks: min(c.Blocks, multiprocessors), Threads: min(c.Threads, ptx.FoldThreads)}
	return fitting.threadGrid(bytes)
}

// ll128Grid returns a grid with a warp for each warp chunk of LL128, or as many as the rule allows, as many warp chunks for each, spread
// over the multiprocessors. All blocks have to be on the device at once, for they wait for one another by way of the peers:
// 512 threads of a multiprocessor are sure to be.
func (c *Rule) ll128Grid(bytes, multiprocessors int) cuda.Grid {
	quads := (bytes + ptx.LL128Data - 1) / ptx.LL128Data
	most := min(c.Blocks*c.Threads, multiprocessors*512) / 32
	rounds := (quads + most - 1) / most
	warps := (quads + rounds - 1) / rounds
	block := min(max((warps+multiprocessors-1)/multiprocessors, 2), c.Threads/32)
	return cuda.Grid{Blocks: uint32(min((warps+block-1)/block, most/block)), Threads: uint32(32 * block)}
}

// sentinelGrid returns a grid with a warp for each warp chunk of 512 bytes, or as many as rule and symmetric heap allow: all blocks have to be on the
// device at once.
func (b *backend) sentinelGrid(c *Rule, bytes int) cuda.Grid {
	strips, blocks := (bytes+511)/512, min(c.Blocks, b.layout.sentinelBlocks, b.multiprocessors)
	block := min((strips+blocks-1)/blocks, c.Threads/32)
	return cuda.Grid{Blocks: uint32(min((strips+block-1)/block, blocks)), Threads: uint32(32 * block)}
}

// leastThreads of a block by tiles are a warp for each of its teams.
const leastThreads = 64

// leastTile is the smallest piece for which a block is worth its barriers, in bytes.
const leastTile = 2 << 10

// tileGrid returns grid and tile for parts of at most so many bytes: small ones are cut so that all blocks get a tile.
func (b *backend) tileGrid(c *Rule, part int) (cuda.Grid, uint32) {
	return c.tileGrid(b.layout.tileSlot, part)
}

// twoPhaseGrid is tileGrid for an all-reduce: with two tiles for each block at least, if they are not small, for the second of a
// block is on its way while the first is folded.
func (b *backend) twoPhaseGrid(c *Rule, part int) (cuda.Grid, uint32) {
	half := up((part+2*c.Blocks-1)/(2*c.Blocks), 512)
	return c.tileGrid(min(b.layout.tileSlot, max(half, 8<<10)), part)
}

// tileGrid is the backend's for tiles of at most so many bytes.
func (c *Rule) tileGrid(most, part int) (cuda.Grid, uint32) {
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
