package peer

import (
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// arguments are the structs that kernels are launched with, one of each. Their fields that are the same in every launch are
// filled in when the backend is opened. The driver has copied the others when a launch returns.
type arguments struct {
	allReduce  ptx.AllReduceArgs
	scatter    ptx.ReduceScatterArgs
	exchange   ptx.ExchangeArgs
	even       ptx.EvenArgs
	into       ptx.DirectExchangeArgs
	broadcast  ptx.BroadcastArgs
	chain      ptx.ChainArgs
	direct     ptx.DirectArgs
	ll128      ptx.LL128Args
	ll128Chain ptx.LL128ChainArgs
	sentinel   ptx.SentinelArgs
	fused      ptx.FusedArgs
	reduce     ptx.ReduceArgs
	copy       ptx.CopyArgs
	unary      ptx.UnaryArgs

	eager      ptx.EagerArgs // of messages
	rendezvous ptx.SentinelArgs
	sendRecv   ptx.SendRecvArgs
}

// prepare fills in the arguments that are the same in every launch. Kernels look at an abort flag on the device's side of abort.
func (x *launcher) prepare(abort uint64) {
	l := x.layout
	g := ptx.GroupArgs{State: uint64(x.heap.Address(l.State)), Abort: abort, Rank: uint32(x.rank),
		Size: uint32(x.size), LLSlot: uint32(l.LLSlot), TileSlot: uint32(l.TileSlot)}
	for q := range x.size {
		d := x.peerIndex(q)
		g.LL[d], g.Tiles[d] = uint64(x.heap.PeerAddress(q, l.LL)), uint64(x.heap.PeerAddress(q, l.Tiles))
		g.Flags[d] = uint64(x.heap.PeerAddress(q, l.Flags))
	}
	a := &arguments{}
	x.args = a
	a.allReduce.Group, a.scatter.Group, a.exchange.Group, a.even.Group, a.broadcast.Group = g, g, g, g, g
	a.reduce.Sources = 2
	for _, of := range algorithms {
		if of.prepare != nil {
			of.prepare(x, g)
		}
	}
	a.rendezvous = ptx.SentinelArgs{Group: g, Sentinel: x.heap.Sentinel, Slots: symheap.RendezvousSlots, Blocks: uint32(l.RendezvousBlocks)}
	a.sendRecv = ptx.SendRecvArgs{Out: a.rendezvous, In: a.rendezvous, Carried: g.State + 16}
	a.eager.State, a.eager.Abort = g.State, abort
}
