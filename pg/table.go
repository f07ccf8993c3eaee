package pg

import "github.com/colligo-go/colligo/plan"

// DefaultChoices is the table measured on a two-core machine; see Choice. Where no line fits, the last of a collective's
// Algorithms is used.
func DefaultChoices() []Choice {
	return []Choice{
		{Coll: plan.AllReduce, MaxBytes: 4 << 10, MaxSize: 8, Algo: "direct"},
		{Coll: plan.AllReduce, MaxBytes: 256 << 10, Algo: "halving_doubling"},
		{Coll: plan.Broadcast, MaxBytes: 64 << 10, Algo: "binomial"},
		{Coll: plan.Reduce, MaxBytes: 64 << 10, Algo: "binomial"},
		{Coll: plan.AllGather, MaxBytes: 16 << 10, MaxSize: 8, Algo: "direct"},
		{Coll: plan.AllGather, MaxBytes: 64 << 10, Algo: "doubling"},
		{Coll: plan.ReduceScatter, MaxBytes: 64 << 10, Algo: "halving"},
	}
}
