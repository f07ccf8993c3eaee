package pg

import "github.com/colligo-go/colligo/pg/internal/op"

// OpType says which operation of c10d a call is, by c10d's numbers. Records, hooks and metrics name operations by it. c10d:
// OpType.
type OpType uint8

// The types, in c10d's order.
const (
	OpBroadcast          = OpType(op.Broadcast)
	OpAllReduce          = OpType(op.AllReduce)
	OpAllReduceCoalesced = OpType(op.AllReduceCoalesced)
	OpReduce             = OpType(op.Reduce)
	OpAllGather          = OpType(op.AllGather)
	OpAllGatherBase      = OpType(op.AllGatherBase) // AllGatherIntoTensor
	OpAllGatherCoalesced = OpType(op.AllGatherCoalesced)
	OpGather             = OpType(op.Gather)
	OpScatter            = OpType(op.Scatter)
	OpReduceScatter      = OpType(op.ReduceScatter)
	OpAllToAllBase       = OpType(op.AllToAllBase) // AllToAllSingle
	OpAllToAll           = OpType(op.AllToAll)
	OpSend               = OpType(op.Send)
	OpRecv               = OpType(op.Recv)
	OpRecvAnySource      = OpType(op.RecvAnySource)
	OpBarrier            = OpType(op.Barrier)
	OpReduceScatterBase  = OpType(op.ReduceScatterBase) // ReduceScatterTensor
	OpCoalesced          = OpType(op.Coalesced)
	OpAllReduceSparse    = OpType(op.AllReduceSparse)
	OpUnknown            = OpType(op.Unknown)
)

// String is c10d's name of the type, such as "ALLREDUCE".
func (t OpType) String() string { return op.Type(t).String() }

// P2P reports whether the type is a send or a receive. c10d: isP2POp.
func (t OpType) P2P() bool { return op.Type(t).P2P() }
