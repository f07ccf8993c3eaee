package peer

import (
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/plan"
)

// algorithms are all that there are, as DefaultRules shows which collectives have which.
var algorithms = []*algorithm{ll, llTwoShot, ll128, ll128TwoShot, sentinel, tiles, direct, fused, copyRings, rotation, chain, copyDirect}

// fallbacks take the place of an algorithm that does not fit an operation, with the grid of its rule. The first of them that
// serves the collective and fits is taken. If there is none, the next rule decides.
var fallbacks = map[Algorithm][]Algorithm{
	LL:           {Tiles},
	LLTwoShot:    {LL, Tiles},
	LL128:        {Sentinel, LL, Tiles},
	LL128TwoShot: {LL128, Sentinel, LL, Tiles},
	CopyDirect:   {Direct},
	Fused:        {Sentinel},
	CopyRing:     {Rotation, Tiles},
	Rotation:     {Tiles},
}

// lastRule covers the operations that no other rule covers, and takes all of them. It is nil if no algorithm serves the
// collective.
func lastRule(c plan.Coll) *tuned {
	if !tiles.serves(c) {
		return nil
	}
	return &tuned{Rule{Coll: c, Algorithm: Tiles, Blocks: symheap.MaxBlocks, Threads: 256}, []*algorithm{tiles}}
}

// DefaultRules is the table for GPUs linked by NVLink (H100, H200). It was tuned on two H200 and on four, driver 580, a
// process for each, with float32; more ranks follow from four. Beyond 128 MiB copy engines take over an all_reduce, for they
// are faster than kernels' stores where slices are long. By bench -tune, 1 GiB on two H200 takes 2,779 µs with a kernel
// behind them. It takes 2,887 with one for each slice, and 3,001 by the sentinel protocol. Rules that follow others of the
// same sizes are for devices without NVLink, which the first ones need.
func DefaultRules() []Rule {
	all := []Rule{
		{Coll: plan.AllReduce, MaxBytes: 16 << 10, Algorithm: LL, Blocks: 8, Threads: 128},
		{Coll: plan.AllReduce, MaxBytes: 64 << 10, Algorithm: LL, Blocks: 64, Threads: 256},
		{Coll: plan.AllReduce, MaxBytes: 512 << 10, MaxSize: 2, Algorithm: LL128, Blocks: 70, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 128 << 10, Algorithm: LL128, Blocks: 64, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 1 << 20, MaxSize: 2, Algorithm: Sentinel, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 1 << 20, Algorithm: LL128TwoShot, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 128 << 20, Algorithm: Sentinel, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, Algorithm: Fused, Blocks: 32, Threads: 512},
		{Coll: plan.AllReduce, Registered: true, MaxBytes: 128 << 20, Algorithm: Direct, Blocks: 128, Threads: 256},
		{Coll: plan.AllReduce, Registered: true, Eager: true, Algorithm: CopyDirect, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, Registered: true, Algorithm: Direct, Blocks: 256, Threads: 256},
		{Coll: plan.AllReduce, MaxBytes: 128 << 20, MaxSize: 2, Algorithm: Tiles, Blocks: 256, Threads: 256},
		{Coll: plan.AllReduce, MaxBytes: 128 << 20, Algorithm: Tiles, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, MaxSize: 4, Eager: true, Algorithm: CopyRing, Blocks: 64, Threads: 512},
		{Coll: plan.AllReduce, MaxSize: 2, Algorithm: Tiles, Blocks: 256, Threads: 256},
		{Coll: plan.AllReduce, Algorithm: Tiles, Blocks: 256, Threads: 512},
	}
	for _, c := range []plan.Coll{plan.AllGather, plan.ReduceScatter, plan.AllToAll, plan.Gather, plan.Scatter, plan.Broadcast, plan.Reduce} {
		all = append(all, rulesOf(c)...)
	}
	return all
}

// rulesOf returns those of a collective other than all_reduce.
func rulesOf(c plan.Coll) (all []Rule) {
	all = append(all, Rule{Coll: c, MaxBytes: 4 << 10, Algorithm: LL, Blocks: 8, Threads: 128})
	switch c {
	case plan.AllGather:
		all = append(all, Rule{Coll: c, MaxBytes: 16 << 10, Algorithm: LL, Blocks: 128, Threads: 128})
	case plan.ReduceScatter:
		all = append(all, Rule{Coll: c, MaxSize: 2, MaxBytes: 64 << 10, Algorithm: LL, Blocks: 128, Threads: 64})
	case plan.Broadcast:
		all = append(all,
			Rule{Coll: c, MaxBytes: 8 << 10, Algorithm: LL, Blocks: 8, Threads: 128},
			Rule{Coll: c, MaxBytes: 64 << 10, Algorithm: LL, Blocks: 128, Threads: 256},
			Rule{Coll: c, MaxBytes: 512 << 10, MaxSize: 2, Algorithm: LL, Blocks: 128, Threads: 256},
			Rule{Coll: c, MaxBytes: 512 << 10, Algorithm: LL128, Blocks: 64, Threads: 512},
			Rule{Coll: c, MaxBytes: 128 << 20, Algorithm: Sentinel, Blocks: 128, Threads: 512},
			Rule{Coll: c, MaxSize: 2, Algorithm: Fused, Blocks: 32, Threads: 512},
			Rule{Coll: c, Algorithm: Sentinel, Blocks: 128, Threads: 512})
	}
	all = append(all,
		Rule{Coll: c, MaxBytes: 256 << 10, Algorithm: LL, Blocks: 128, Threads: 256},
		Rule{Coll: c, MaxBytes: 512 << 10, MaxSize: 2, Algorithm: LL, Blocks: 128, Threads: 512})
	switch c {
	case plan.AllGather, plan.AllToAll:
		all = append(all,
			Rule{Coll: c, Registered: true, MaxBytes: 32 << 20, Algorithm: Direct, Blocks: 256, Threads: 256},
			Rule{Coll: c, Registered: true, Eager: true, Algorithm: CopyDirect, Blocks: 128, Threads: 512},
			Rule{Coll: c, MaxBytes: 1 << 20, Algorithm: Rotation, Blocks: 128, Threads: 512})
		if c == plan.AllGather {
			all = append(all,
				Rule{Coll: c, MaxBytes: 24 << 20, Algorithm: Rotation, Blocks: 256, Threads: 320, Tile: 16 << 10},
				Rule{Coll: c, Algorithm: Fused, Blocks: 32, Threads: 512})
		} else {
			all = append(all,
				Rule{Coll: c, MaxSize: 2, MaxBytes: 32 << 20, Algorithm: Rotation, Blocks: 256, Threads: 320, Tile: 16 << 10},
				Rule{Coll: c, MaxSize: 2, Algorithm: Fused, Blocks: 32, Threads: 512})
		}
		all = append(all, Rule{Coll: c, Algorithm: Rotation, Blocks: 256, Threads: 320, Tile: 16 << 10})
	case plan.Broadcast:
		all = append(all,
			Rule{Coll: c, MaxBytes: 96 << 20, Algorithm: Chain, Blocks: 64, Threads: 512, Tile: 24 << 10},
			Rule{Coll: c, Algorithm: Chain, Blocks: 128, Threads: 512})
	case plan.ReduceScatter:
		all = append(all,
			Rule{Coll: c, MaxBytes: 32 << 20, Algorithm: Tiles, Blocks: 128, Threads: 512},
			Rule{Coll: c, MaxSize: 2, MaxBytes: 48 << 20, Algorithm: Tiles, Blocks: 128, Threads: 512},
			Rule{Coll: c, MaxSize: 2, Algorithm: Fused, Blocks: 32, Threads: 512},
			Rule{Coll: c, Algorithm: Tiles, Blocks: 256, Threads: 512})
	case plan.Reduce:
		all = append(all,
			Rule{Coll: c, MaxSize: 2, MaxBytes: 12 << 20, Algorithm: Tiles, Blocks: 128, Threads: 512},
			Rule{Coll: c, MaxBytes: 48 << 20, Algorithm: Tiles, Blocks: 256, Threads: 256},
			Rule{Coll: c, MaxSize: 2, Algorithm: Fused, Blocks: 32, Threads: 512},
			Rule{Coll: c, Algorithm: Tiles, Blocks: 256, Threads: 256})
	default:
		all = append(all, Rule{Coll: c, Algorithm: Tiles, Blocks: 256, Threads: 256})
	}
	return all
}
