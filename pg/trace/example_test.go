package trace_test

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/trace"
)

func Example() {
	gradients := []colligo.Tensor{colligo.Of(make([]float32, 1024))}
	dumps := map[int]*flight.Dump{}
	for rank := range 3 {
		r := flight.New(flight.DefaultCapacity, 0)
		group := r.AddGroup("0", "default_pg", []int{0, 1, 2})
		if rank != 1 {
			r.Add(&flight.Op{PG: group, Seq: 1, OpID: 1, Name: "nccl:all_reduce", In: gradients, Out: gradients}, 0)
		}
		dumps[rank] = r.Dump(flight.DumpOptions{Entries: true})
	}
	fmt.Println(trace.Analyze(dumps).Verdict())
	// Output: all_reduce #1 (float32 [1024]) of group 0 (default_pg): rank 1 has not entered; ranks 0, 2 wait
}
