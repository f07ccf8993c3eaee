package tuning

import "github.com/colligo-go/colligo/plan"

// Default is the table by which planners are picked. It was measured with bench on one machine of two cores with 2 to 8
// ranks. Lines of all_reduce for Enough cores were measured on a machine of 16 cores with 3 to 16 ranks. So were direct all_reduce
// of 2 ranks, all_gather of 4 ranks, and what is said of direct reduce_scatter and barrier. `bench -tune` makes a table
// for another machine. Where no line fits, the last of a collective's Algorithms is used.
//
// Lines for Spare cores have two lanes. Each rank carries out each of them on a core of its own (package transport's Laned). They were
// measured on 16 cores with 2, 4 and 8 ranks, by bench with -table.
func Default() []Rule { return append(spareRules(), otherRules()...) }

// spareRules are the lines for Spare cores.
func spareRules() []Rule {
	return []Rule{
		{Coll: plan.AllReduce, Medium: "tcp", MaxSize: 4, Cores: Spare, OverBytes: 512 << 10, Algo: "ring", Lanes: 2, ChunkBytes: 512 << 10},
		{Coll: plan.AllReduce, Medium: "tcp", MaxSize: 8, Cores: Spare, OverBytes: 4 << 20, Algo: "ring", Lanes: 2, ChunkBytes: 512 << 10},
		{Coll: plan.Broadcast, Medium: "tcp", MaxSize: 8, Cores: Spare, OverBytes: 1 << 20, Algo: "chain", Lanes: 2, ChunkBytes: 256 << 10},
		{Coll: plan.Reduce, Medium: "tcp", MaxSize: 8, Cores: Spare, OverBytes: 1 << 20, Algo: "chain", Lanes: 2, ChunkBytes: 256 << 10},
		{Coll: plan.AllGather, Medium: "tcp", MaxSize: 8, Cores: Spare, OverBytes: 2 << 20, Algo: "ring", Lanes: 2, ChunkBytes: 512 << 10},
		{Coll: plan.AllToAll, Medium: "tcp", MaxSize: 8, Cores: Spare, OverBytes: 2 << 20, Algo: "rotation", Lanes: 2, ChunkBytes: 512 << 10},
		{Coll: plan.ReduceScatter, Medium: "tcp", MaxSize: 8, Cores: Spare, OverBytes: 2 << 20, Algo: "ring", Lanes: 2, ChunkBytes: 512 << 10},
		{Coll: plan.AllReduce, Medium: "shm", MaxSize: 4, Cores: Spare, OverBytes: 1 << 20, Algo: "ring", Lanes: 2},
		{Coll: plan.AllReduce, Medium: "shm", MaxSize: 8, Cores: Spare, OverBytes: 4 << 20, Algo: "ring", Lanes: 2},
		{Coll: plan.Broadcast, Medium: "shm", MaxSize: 8, Cores: Spare, OverBytes: 2 << 20, Algo: "chain", Lanes: 2, ChunkBytes: 256 << 10},
		{Coll: plan.Reduce, Medium: "shm", MaxSize: 8, Cores: Spare, OverBytes: 2 << 20, Algo: "chain", Lanes: 2, ChunkBytes: 256 << 10},
		{Coll: plan.AllGather, Medium: "shm", MaxSize: 8, Cores: Spare, OverBytes: 2 << 20, Algo: "ring", Lanes: 2, ChunkBytes: 256 << 10},
		{Coll: plan.ReduceScatter, Medium: "shm", MaxSize: 4, Cores: Spare, OverBytes: 2 << 20, Algo: "ring", Lanes: 2},
		{Coll: plan.ReduceScatter, Medium: "shm", MaxSize: 8, Cores: Spare, OverBytes: 4 << 20, Algo: "ring", Lanes: 2},
	}
}

// otherRules are all other lines.
func otherRules() []Rule {
	return []Rule{
		{Coll: plan.AllReduce, Medium: "tcp", MaxSize: 2, MaxBytes: 256 << 10, Algo: "direct"},
		{Coll: plan.AllReduce, Medium: "tcp", MaxSize: 2, MaxBytes: 4 << 20, Algo: "circulant", ChunkBytes: 512 << 10},
		{Coll: plan.AllReduce, Medium: "tcp", MaxSize: 2, Algo: "ring", ChunkBytes: 512 << 10},
		{Coll: plan.AllReduce, Medium: "tcp", MinSize: 3, Cores: Crowded, MaxBytes: 16 << 10, Algo: "recursive_doubling"},
		{Coll: plan.AllReduce, Medium: "tcp", MinSize: 3, MaxSize: 4, Cores: Crowded, MaxBytes: 64 << 10, Algo: "double_tree"},
		{Coll: plan.AllReduce, Medium: "tcp", MaxSize: 3, Cores: Enough, MaxBytes: 32 << 10, Algo: "direct"},
		{Coll: plan.AllReduce, Medium: "tcp", MinSize: 4, Cores: Enough, MaxBytes: 32 << 10, Algo: "recursive_doubling"},
		{Coll: plan.AllReduce, Medium: "tcp", MinSize: 3, MaxSize: 4, MaxBytes: 8 << 20, Algo: "circulant", ChunkBytes: 256 << 10},
		{Coll: plan.AllReduce, Medium: "tcp", MinSize: 3, MaxSize: 4, Cores: Crowded, Algo: "double_tree", ChunkBytes: 256 << 10},
		{Coll: plan.AllReduce, Medium: "tcp", MinSize: 5, MaxSize: 8, Cores: Crowded, MaxBytes: 512 << 10, Algo: "circulant"},
		{Coll: plan.AllReduce, Medium: "tcp", MinSize: 5, MaxSize: 8, Cores: Crowded, Algo: "double_tree", ChunkBytes: 256 << 10},
		{Coll: plan.AllReduce, Medium: "tcp", MinSize: 5, MaxBytes: 1 << 20, Algo: "circulant"},
		{Coll: plan.AllReduce, Medium: "tcp", MinSize: 5, Cores: Enough, Algo: "ring", ChunkBytes: 512 << 10},
		{Coll: plan.AllReduce, MaxSize: 2, MaxBytes: 1 << 10, Algo: "direct"},
		{Coll: plan.AllReduce, Medium: "shm", MaxSize: 2, MaxBytes: 2 << 10, Algo: "direct"},
		{Coll: plan.AllReduce, Medium: "shm", MaxSize: 2, MaxBytes: 256 << 10, Algo: "ring"},
		{Coll: plan.AllReduce, Medium: "shm", MaxSize: 2, MaxBytes: 4 << 20, Algo: "circulant"},
		{Coll: plan.AllReduce, Medium: "shm", MinSize: 3, MaxSize: 3, Cores: Enough, MaxBytes: 16 << 10, Algo: "direct"},
		{Coll: plan.AllReduce, Medium: "shm", MinSize: 4, MaxSize: 4, Cores: Enough, MaxBytes: 4 << 10, Algo: "recursive_doubling"},
		{Coll: plan.AllReduce, Medium: "shm", MinSize: 3, MaxSize: 4, Cores: Crowded, MaxBytes: 16 << 10, Algo: "direct"},
		{Coll: plan.AllReduce, Medium: "shm", MinSize: 4, MaxSize: 4, Cores: Crowded, MaxBytes: 64 << 10, Algo: "recursive_doubling"},
		{Coll: plan.AllReduce, MinSize: 3, MaxSize: 4, MaxBytes: 2 << 10, Algo: "direct"},
		{Coll: plan.AllReduce, MinSize: 3, MaxSize: 4, MaxBytes: 8 << 20, Algo: "circulant"},
		{Coll: plan.AllReduce, Medium: "shm", MinSize: 5, MaxSize: 8, Cores: Crowded, MaxBytes: 4 << 10, Algo: "direct"},
		{Coll: plan.AllReduce, Medium: "shm", MinSize: 5, MaxSize: 8, Cores: Crowded, MaxBytes: 16 << 10, Algo: "recursive_doubling"},
		{Coll: plan.AllReduce, MinSize: 5, MaxBytes: 4 << 10, Algo: "recursive_doubling"},
		{Coll: plan.AllReduce, Medium: "shm", MinSize: 5, MaxSize: 8, Cores: Crowded, MaxBytes: 128 << 10, Algo: "circulant"},
		{Coll: plan.AllReduce, Medium: "shm", MinSize: 5, MaxSize: 8, Cores: Crowded, Algo: "ring"},
		{Coll: plan.AllReduce, MinSize: 5, MaxBytes: 512 << 10, Algo: "circulant"},
		{Coll: plan.Broadcast, MaxBytes: 64 << 10, Algo: "binomial"},
		{Coll: plan.Broadcast, Medium: "tcp", MaxSize: 4, Algo: "chain", ChunkBytes: 256 << 10},
		{Coll: plan.Reduce, MaxBytes: 64 << 10, Algo: "binomial"},
		{Coll: plan.Reduce, Medium: "tcp", MaxSize: 4, Algo: "chain", ChunkBytes: 256 << 10},
		{Coll: plan.AllGather, Medium: "tcp", MinSize: 4, MaxSize: 4, MaxBytes: 16 << 10, Algo: "doubling"},
		{Coll: plan.AllGather, Medium: "shm", MinSize: 4, MaxSize: 4, Cores: Enough, MaxBytes: 16 << 10, Algo: "doubling"},
		{Coll: plan.AllGather, MaxSize: 4, MaxBytes: 16 << 10, Algo: "direct"},
		{Coll: plan.AllGather, Medium: "shm", MinSize: 5, MaxSize: 8, Cores: Crowded, MaxBytes: 64 << 10, Algo: "direct"},
		{Coll: plan.AllGather, MaxBytes: 64 << 10, Algo: "doubling"},
		{Coll: plan.AllGather, Medium: "shm", MinSize: 3, MaxSize: 4, Cores: Crowded, MaxBytes: 1 << 20, Algo: "direct"},
		{Coll: plan.AllGather, Medium: "tcp", MaxSize: 2, Algo: "ring", ChunkBytes: 512 << 10},
		{Coll: plan.AllGather, Medium: "tcp", MaxSize: 4, Algo: "ring", ChunkBytes: 256 << 10},
		{Coll: plan.AllToAll, Medium: "shm", MinSize: 3, Cores: Crowded, MaxBytes: 4 << 20, Algo: "rotation"},
		{Coll: plan.ReduceScatter, Medium: "shm", MaxSize: 2, MaxBytes: 8 << 10, Algo: "direct"},
		{Coll: plan.ReduceScatter, Medium: "shm", MinSize: 3, MaxSize: 4, Cores: Crowded, MaxBytes: 2 << 10, Algo: "direct"},
		{Coll: plan.ReduceScatter, Medium: "shm", MinSize: 5, MaxSize: 8, Cores: Crowded, MaxBytes: 16 << 10, Algo: "direct"},
		{Coll: plan.ReduceScatter, MaxBytes: 64 << 10, Algo: "halving"},
		{Coll: plan.ReduceScatter, Medium: "tcp", MaxSize: 2, Algo: "ring", ChunkBytes: 512 << 10},
		{Coll: plan.ReduceScatter, Medium: "tcp", MaxSize: 4, Algo: "ring", ChunkBytes: 256 << 10},
		{Coll: plan.Barrier, Medium: "shm", MaxSize: 8, Cores: Crowded, Algo: "direct"},
	}
}
