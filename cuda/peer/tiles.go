package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// Tiles is one kernel whose blocks push tiles into the peers' heaps, with barriers by block. It takes every operation, on any
// link. Sums are in rank order. An all-reduce is two steps: each of n ranks stores 2(n-1)/n·B bytes.
const Tiles Algorithm = "tiles"

var tiles = &algorithm{
	name:   Tiles,
	source: "Tiles",
	forms: forms{
		plan.AllReduce:     {launch: allReduceTiles},
		plan.Broadcast:     {launch: exchangeTiles},
		plan.ReduceScatter: {launch: scatterTiles},
		plan.Reduce:        {launch: scatterTiles},
		plan.AllGather:     {launch: exchangeTiles},
		plan.AllToAll:      {launch: exchangeTiles},
		plan.Gather:        {launch: exchangeTiles},
		plan.Scatter:       {launch: exchangeTiles},
	},
}

var (
	tilesExchange  = moveEntryOf(ptx.ExchangeTiles)
	tilesAllReduce = foldEntryOf(ptx.TileFamily, ptx.AllReduceTiles)
	tilesScatter   = foldEntryOf(ptx.TileFamily, ptx.ReduceScatterTiles)
)

func allReduceTiles(x *launcher, o *operation) error {
	k, err := x.fold(o, tilesAllReduce)
	if err != nil {
		return err
	}
	a := x.layAllReduce(o)
	var grid cuda.Grid
	grid, a.Tile = x.twoPhaseGrid(o.rule, o.part)
	return x.launch(o, k, grid, unsafe.Pointer(a))
}

func exchangeTiles(x *launcher, o *operation) error {
	a := x.layExchange(o)
	var grid cuda.Grid
	grid, a.Tile = o.rule.tileGrid(x.layout.TileSlot, o.bytes)
	return x.launch(o, x.code.move(tilesExchange), grid, unsafe.Pointer(a))
}

func scatterTiles(x *launcher, o *operation) error {
	k, err := x.fold(o, tilesScatter)
	if err != nil {
		return err
	}
	x.layParts(o)
	a := &x.args.scatter
	var grid cuda.Grid
	grid, a.Tile = o.rule.tileGrid(x.layout.TileSlot, o.bytes)
	return x.launch(o, k, grid, unsafe.Pointer(a))
}

// leastThreads of a block by tiles are a warp for each of its teams.
const leastThreads = 64

// leastTile is the smallest piece for which a block is worth its barriers, in bytes.
const leastTile = 2 << 10

// twoPhaseGrid returns grid and tile for an all-reduce. Each block gets two tiles at least, if they are not small: the second
// is on its way while the block folds the first.
func (x *launcher) twoPhaseGrid(r *Rule, part int) (cuda.Grid, uint32) {
	half := up((part+2*r.Blocks-1)/(2*r.Blocks), 512)
	return r.tileGrid(min(x.layout.TileSlot, max(half, 8<<10)), part)
}

// tileGrid returns grid and tile for parts of at most so many bytes, and tiles of at most so many. Small parts are cut so that
// all blocks get a tile.
func (r *Rule) tileGrid(most, part int) (cuda.Grid, uint32) {
	if r.Tile > 0 {
		most = min(most, up(r.Tile, 16))
	}
	rounds := (part + r.Blocks*most - 1) / (r.Blocks * most) // as many tiles for each block
	tile := min(max(up((part+r.Blocks*rounds-1)/(r.Blocks*rounds), 512), leastTile), most)
	blocks := max(min((part+tile-1)/tile, r.Blocks), 1)
	return cuda.Grid{Blocks: uint32(blocks), Threads: uint32(max(r.Threads, leastThreads))}, uint32(tile)
}
