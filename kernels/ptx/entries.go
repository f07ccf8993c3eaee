package ptx

import "unsafe"

// An Entry is an entry point of a Module. Its only parameter is a struct of Args bytes.
type Entry struct {
	Name string
	Args uintptr
}

// The entry points, with their arguments and the grids that may run them. A block has at most 512 threads, and at least 16 if the
// comments ask for no more. Addresses of user memory may be any multiple of the size of an element, or of its real part. CopyBytes
// and the Exchanges take any address. Multiples of 16 are fastest.
const (
	ReduceTwo = "reduce_two" // ReduceArgs with 2 sources; any grid

	// The LL kernels take any grid of which all blocks fit on the device. It may differ between ranks. Blocks of the reducing kernels
	// have at most FoldThreads.
	AllReduceLL         = "all_reduce_ll"          // AllReduceArgs; Bytes at most LLSlot/2
	AllReduceLLTwoShot  = "all_reduce_ll_two_shot" // AllReduceArgs; Part at most LLSlot/4, Bytes above (Size-1)·Part
	ReduceScatterLL     = "reduce_scatter_ll"      // ReduceScatterArgs; each of Bytes at most LLSlot/2
	ExchangeLL          = "exchange_ll"            // ExchangeArgs; each of the bytes at most LLSlot/2
	BroadcastLL         = "broadcast_ll"           // BroadcastArgs; Bytes at most LLSlot/2
	ReduceScatterLLEven = "reduce_scatter_ll_even" // EvenArgs; Part at most LLSlot/2; peers may run ReduceScatterLL
	ExchangeLLEven      = "exchange_ll_even"       // EvenArgs; Part at most LLSlot/2; peers may run ExchangeLL

	// The LL128 kernels take the grids of the LL kernels, of whole warps. The devices are linked by NVLink. BroadcastLL128 needs the
	// same grid on all ranks, and so does AllReduceLL128 if Bytes do not fit into Slot.
	AllReduceLL128        = "all_reduce_ll128"          // LL128Args; Slot holds a warp chunk for each warp
	AllReduceLL128TwoShot = "all_reduce_ll128_two_shot" // LL128Args; Slot holds twice the warp chunks of Part, Bytes above (Size-1)·Part
	BroadcastLL128        = "broadcast_ll128"           // LL128ChainArgs; Slot holds a warp chunk for each warp, or all of them

	// The sentinel kernels take the same grid on all ranks, of whole warps, at most SentinelWarps in a block. All blocks fit on the
	// device, and sentinel memory is for that many warps. The devices are linked by NVLink.
	AllReduceSentinel = "all_reduce_sentinel" // SentinelArgs
	BroadcastSentinel = "broadcast_sentinel"  // SentinelArgs; a message has the same grid on both ranks

	// The kernels fused with copy engines take the same grid on all ranks, of whole warps and at least two blocks. All blocks fit on the
	// device, and the devices are linked by NVLink. The caller has the engines send the rest of each slice.
	AllReduceFused = "all_reduce_fused" // FusedArgs
	MoveFused      = "move_fused"       // FusedArgs; Folds 0; in a ring Part a multiple of 16

	// The tile kernels take the same grid and tile on all ranks. All blocks fit on the device, and the memory of GroupArgs is for at
	// least that many blocks.
	AllReduceTiles     = "all_reduce_tiles"     // AllReduceArgs
	ReduceScatterTiles = "reduce_scatter_tiles" // ReduceScatterArgs
	ExchangeTiles      = "exchange_tiles"       // ExchangeArgs
	ExchangeRotation   = "exchange_rotation"    // ExchangeArgs; lengths of peer indices above 0 are equal on all ranks, blocks of at least 64 threads
	ExchangeDirect     = "exchange_direct"      // DirectExchangeArgs
	BroadcastChain     = "broadcast_chain"      // ChainArgs
	AllReduceDirect    = "all_reduce_direct"    // DirectArgs

	ExchangeEager = "exchange_eager" // EagerArgs; any grid, of which all blocks fit on the device
	Rendezvous    = "rendezvous"     // SendRecvArgs; one block
	SendRecv      = "sendrecv"       // SendRecvArgs; for each message the blocks of BroadcastSentinel, and one more

	CopyBytes = "copy" // CopyArgs; any grid
	FillLines = "fill" // FillArgs; any grid

	Scale = "scale" // UnaryArgs; any grid
)

var (
	localEntries = []Entry{
		{ReduceTwo, unsafe.Sizeof(ReduceArgs{})},
	}
	llEntries = []Entry{
		{AllReduceLL, unsafe.Sizeof(AllReduceArgs{})},
		{AllReduceLLTwoShot, unsafe.Sizeof(AllReduceArgs{})},
		{ReduceScatterLL, unsafe.Sizeof(ReduceScatterArgs{})},
		{ReduceScatterLLEven, unsafe.Sizeof(EvenArgs{})},
	}
	tileEntries = []Entry{
		{AllReduceTiles, unsafe.Sizeof(AllReduceArgs{})},
		{ReduceScatterTiles, unsafe.Sizeof(ReduceScatterArgs{})},
	}
	ll128Entries = []Entry{
		{AllReduceLL128, unsafe.Sizeof(LL128Args{})},
		{AllReduceLL128TwoShot, unsafe.Sizeof(LL128Args{})},
	}
	sentinelEntries = []Entry{{AllReduceSentinel, unsafe.Sizeof(SentinelArgs{})}}
	fusedEntries    = []Entry{{AllReduceFused, unsafe.Sizeof(FusedArgs{})}}
	directEntries   = []Entry{{AllReduceDirect, unsafe.Sizeof(DirectArgs{})}}
	moveEntries     = []Entry{
		{CopyBytes, unsafe.Sizeof(CopyArgs{})},
		{FillLines, unsafe.Sizeof(FillArgs{})},
		{ExchangeLL, unsafe.Sizeof(ExchangeArgs{})},
		{ExchangeLLEven, unsafe.Sizeof(EvenArgs{})},
		{BroadcastLL, unsafe.Sizeof(BroadcastArgs{})},
		{ExchangeTiles, unsafe.Sizeof(ExchangeArgs{})},
		{ExchangeRotation, unsafe.Sizeof(ExchangeArgs{})},
		{ExchangeDirect, unsafe.Sizeof(DirectExchangeArgs{})},
		{BroadcastChain, unsafe.Sizeof(ChainArgs{})},
		{BroadcastLL128, unsafe.Sizeof(LL128ChainArgs{})},
		{BroadcastSentinel, unsafe.Sizeof(SentinelArgs{})},
		{MoveFused, unsafe.Sizeof(FusedArgs{})},
		{ExchangeEager, unsafe.Sizeof(EagerArgs{})},
		{Rendezvous, unsafe.Sizeof(SendRecvArgs{})},
		{SendRecv, unsafe.Sizeof(SendRecvArgs{})},
	}
	unaryEntries = []Entry{{Scale, unsafe.Sizeof(UnaryArgs{})}}
)

// UsesTiles reports whether an entry point leaves data in tile memory.
func UsesTiles(name string) bool {
	switch name {
	case AllReduceTiles, ReduceScatterTiles, ExchangeTiles, ExchangeRotation, BroadcastChain, AllReduceDirect:
		return true
	}
	return false
}

func familyEntries(f Family) []Entry {
	switch f {
	case LocalFamily:
		return localEntries
	case LLFamily:
		return llEntries
	case TileFamily:
		return tileEntries
	case LL128Family:
		return ll128Entries
	case SentinelFamily:
		return sentinelEntries
	case FusedFamily:
		return fusedEntries
	case DirectFamily:
		return directEntries
	}
	panic("kernels/ptx: no family " + string(f))
}
