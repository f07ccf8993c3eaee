package pg

import "github.com/colligo-go/colligo/plan"

// OpType is what was called, by c10d's numbers. c10d: OpType.
type OpType uint8

// The types, in c10d's order.
const (
	OpBroadcast OpType = iota
	OpAllReduce
	OpAllReduceCoalesced
	OpReduce
	OpAllGather
	OpAllGatherBase // AllGatherIntoTensor
	OpAllGatherCoalesced
	OpGather
	OpScatter
	OpReduceScatter
	OpAllToAllBase // AllToAllSingle
	OpAllToAll
	OpSend
	OpRecv
	OpRecvAnySource
	OpBarrier
	OpReduceScatterBase // ReduceScatterTensor
	OpCoalesced
	OpAllReduceSparse
	numOpTypes
	OpUnknown OpType = 100
)

// opNames are c10d's name of a type, and the one that an operation has in a dump of the flight recorder. What reads dumps
// knows no prefix but that of NCCL. Sends and receives have a name for each peer there.
var opNames = [numOpTypes]struct{ c10d, flight string }{
	OpBroadcast:          {"BROADCAST", "nccl:broadcast"},
	OpAllReduce:          {"ALLREDUCE", "nccl:all_reduce"},
	OpAllReduceCoalesced: {"ALLREDUCE_COALESCED", "nccl:allreduce_coalesced"},
	OpReduce:             {"REDUCE", "nccl:reduce"},
	OpAllGather:          {"ALLGATHER", "nccl:all_gather"},
	OpAllGatherBase:      {"_ALLGATHER_BASE", "nccl:_all_gather_base"},
	OpAllGatherCoalesced: {"ALLGATHER_COALESCED", "nccl:all_gather_into_tensor_coalesced"},
	OpGather:             {"GATHER", "nccl:gather"},
	OpScatter:            {"SCATTER", "nccl:scatter"},
	OpReduceScatter:      {"REDUCE_SCATTER", "nccl:reduce_scatter"},
	OpAllToAllBase:       {"ALLTOALL_BASE", "nccl:all_to_all"},
	OpAllToAll:           {"ALLTOALL", "nccl:all_to_all"},
	OpSend:               {"SEND", "nccl:send"},
	OpRecv:               {"RECV", "nccl:recv"},
	OpRecvAnySource:      {"RECVANYSOURCE", "nccl:recv"},
	OpBarrier:            {"BARRIER", "nccl:all_reduce_barrier"},
	OpReduceScatterBase:  {"_REDUCE_SCATTER_BASE", "nccl:_reduce_scatter_base"},
	OpCoalesced:          {"COALESCED", "nccl:coalesced"},
	OpAllReduceSparse:    {"_ALLREDUCE_SPARSE", "nccl:all_reduce_sparse"},
}

// String is c10d's name of the type, such as "ALLREDUCE".
func (t OpType) String() string {
	if t < numOpTypes {
		return opNames[t].c10d
	}
	return "UNKNOWN"
}

// P2P reports whether the type is a send or a receive.
func (t OpType) P2P() bool { return t == OpSend || t == OpRecv || t == OpRecvAnySource }

// as makes a request one of a type that its collective and tensors do not tell.
func (r *request) as(t OpType) { r.kind = t + 1 }

// opType returns what was called. Of collectives with two forms, single tensors have the base form.
func (r *request) opType() OpType {
	if r.kind > 0 {
		return r.kind - 1
	}
	switch r.coll {
	case plan.AllReduce:
		return OpAllReduce
	case plan.Broadcast:
		return OpBroadcast
	case plan.Reduce:
		return OpReduce
	case plan.AllGather:
		return either(r.dst.Valid(), OpAllGatherBase, OpAllGather)
	case plan.ReduceScatter:
		return either(r.src.Valid(), OpReduceScatterBase, OpReduceScatter)
	case plan.AllToAll:
		return either(r.src.Valid(), OpAllToAllBase, OpAllToAll)
	case plan.Gather:
		return OpGather
	case plan.Scatter:
		return OpScatter
	case plan.Barrier:
		return OpBarrier
	case plan.Send:
		return OpSend
	case plan.Recv:
		return either(r.peer == anyPeer, OpRecvAnySource, OpRecv)
	}
	return OpUnknown
}

func either[T any](c bool, yes, no T) T {
	if c {
		return yes
	}
	return no
}
