package op

import (
	"strings"

	"github.com/colligo-go/colligo/plan"
)

// Type is what was called, by c10d's numbers.
type Type uint8

// The types, in c10d's order.
const (
	Broadcast Type = iota
	AllReduce
	AllReduceCoalesced
	Reduce
	AllGather
	AllGatherBase
	AllGatherCoalesced
	Gather
	Scatter
	ReduceScatter
	AllToAllBase
	AllToAll
	Send
	Recv
	RecvAnySource
	Barrier
	ReduceScatterBase
	Coalesced
	AllReduceSparse
	NumTypes
	Unknown Type = 100
)

// names are c10d's name of a type, and the one that an operation has in a dump of the flight recorder. Readers of dumps know
// no prefix but that of NCCL. Sends and receives have a name for each peer there.
var names = [NumTypes]struct{ c10d, flight string }{
	Broadcast:          {"BROADCAST", "nccl:broadcast"},
	AllReduce:          {"ALLREDUCE", "nccl:all_reduce"},
	AllReduceCoalesced: {"ALLREDUCE_COALESCED", "nccl:allreduce_coalesced"},
	Reduce:             {"REDUCE", "nccl:reduce"},
	AllGather:          {"ALLGATHER", "nccl:all_gather"},
	AllGatherBase:      {"_ALLGATHER_BASE", "nccl:_all_gather_base"},
	AllGatherCoalesced: {"ALLGATHER_COALESCED", "nccl:all_gather_into_tensor_coalesced"},
	Gather:             {"GATHER", "nccl:gather"},
	Scatter:            {"SCATTER", "nccl:scatter"},
	ReduceScatter:      {"REDUCE_SCATTER", "nccl:reduce_scatter"},
	AllToAllBase:       {"ALLTOALL_BASE", "nccl:all_to_all"},
	AllToAll:           {"ALLTOALL", "nccl:all_to_all"},
	Send:               {"SEND", "nccl:send"},
	Recv:               {"RECV", "nccl:recv"},
	RecvAnySource:      {"RECVANYSOURCE", "nccl:recv"},
	Barrier:            {"BARRIER", "nccl:all_reduce_barrier"},
	ReduceScatterBase:  {"_REDUCE_SCATTER_BASE", "nccl:_reduce_scatter_base"},
	Coalesced:          {"COALESCED", "nccl:coalesced"},
	AllReduceSparse:    {"_ALLREDUCE_SPARSE", "nccl:all_reduce_sparse"},
}

// String is c10d's name of the type, such as "ALLREDUCE".
func (t Type) String() string {
	if t < NumTypes {
		return names[t].c10d
	}
	return "UNKNOWN"
}

// Flight is the name of the type in a dump of the flight recorder.
func (t Type) Flight() string { return names[t].flight }

// Call is the name of the type in messages for people, such as "all_reduce".
func (t Type) Call() string {
	switch {
	case t == Barrier:
		return "barrier"
	case t < NumTypes:
		return strings.TrimPrefix(t.Flight(), "nccl:")
	}
	return "operation"
}

// P2P reports whether the type is a send or a receive.
func (t Type) P2P() bool { return t == Send || t == Recv || t == RecvAnySource }

// As makes an operation one of a type that its collective and tensors do not tell.
func (o *Op) As(t Type) { o.kind = t + 1 }

// Type returns what was called. Of collectives with two forms, single tensors have the base form.
func (o *Op) Type() Type {
	if o.kind > 0 {
		return o.kind - 1
	}
	switch o.Coll {
	case plan.AllReduce:
		return AllReduce
	case plan.Broadcast:
		return Broadcast
	case plan.Reduce:
		return Reduce
	case plan.AllGather:
		return either(o.Out.Valid(), AllGatherBase, AllGather)
	case plan.ReduceScatter:
		return either(o.In.Valid(), ReduceScatterBase, ReduceScatter)
	case plan.AllToAll:
		return either(o.In.Valid(), AllToAllBase, AllToAll)
	case plan.Gather:
		return Gather
	case plan.Scatter:
		return Scatter
	case plan.Barrier:
		return Barrier
	case plan.Send:
		return Send
	case plan.Recv:
		return either(o.Any, RecvAnySource, Recv)
	}
	return Unknown
}

func either(c bool, yes, no Type) Type {
	if c {
		return yes
	}
	return no
}
