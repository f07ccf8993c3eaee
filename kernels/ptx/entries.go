package ptx

import "unsafe"

// An Entry is an entry point of a Module. Its only parameter is a struct of Args bytes.
type Entry struct {
	Name string
	Args uintptr
}

// The entry points, their argument, and how many blocks and threads may run them. A block has at most 512 threads, and at
// least 16 where more are not asked for. Addresses of user memory may be any multiple of the element's (of its real
// part's) size, of Copy and the Exchanges any at all; multiples of 16 are fastest.
const (
	ReduceTwo  = "reduce_two"  // ReduceArgs with 2 sources; any grid
	ReduceMany = "reduce_many" // ReduceArgs; any grid

	// The packet kernels: any grid, which may differ between ranks, as long as all its blocks fit on the device. The reducing
	// ones' blocks have at most FoldThreads.
	AllReduceOneShot     = "all_reduce_one_shot"    // AllReduceArgs; Bytes at most PacketSlot/2
	AllReduceTwoShot     = "all_reduce_two_shot"    // AllReduceArgs; Part at most PacketSlot/4, Bytes above (Size-1)·Part
	ReduceScatterPackets = "reduce_scatter_packets" // ReduceScatterArgs; each of Bytes at most PacketSlot/2
	ExchangePackets      = "exchange_packets"       // ExchangeArgs; each of the bytes at most PacketSlot/2
	BroadcastPackets     = "broadcast_packets"      // BroadcastArgs; Bytes at most PacketSlot/2
	ReduceScatterEven    = "reduce_scatter_even"    // EvenArgs; Part at most PacketSlot/2; peers may run ReduceScatterPackets
	ExchangeEven         = "exchange_even"          // EvenArgs; Part at most PacketSlot/2; peers may run ExchangePackets

	// The row kernels: as the packet kernels, with whole warps, between devices linked by NVLink. BroadcastRows needs the same grid
	// on all ranks, as AllReduceRows does where Bytes do not fit into Slot.
	AllReduceRows        = "all_reduce_rows"          // RowsArgs; Slot holds a quad for each warp
	AllReduceRowsTwoShot = "all_reduce_rows_two_shot" // RowsArgs; Slot holds two for each of Part, Bytes above (Size-1)·Part
	BroadcastRows        = "broadcast_rows"           // RowChainArgs; Slot holds a quad for each warp, or all that there are

	// The line kernels: the same grid on all ranks, of whole warps and at most LineWarps in a block, all its blocks fit on the device,
	// and line memory is for so many warps; between devices linked by NVLink.
	AllReduceLines = "all_reduce_lines" // LinesArgs
	BroadcastLines = "broadcast_lines"  // LinesArgs; of a message, the same grid on both ranks

	// The kernels that go behind copy engines: the same grid on all ranks, of whole warps and two blocks at least, which all fit on the
	// device; between devices linked by NVLink. Whoever launches them has the engines send the rest of each slice.
	AllReduceFollow = "all_reduce_follow" // FollowArgs
	MoveFollow      = "move_follow"       // FollowArgs; Folds 0; in a ring Part a multiple of 16

	// The tile kernels: the same grid and tile on all ranks, all its blocks fit on the device, and GroupArgs' memory is
	// for so many blocks at least.
	AllReduceTiles     = "all_reduce_tiles"     // AllReduceArgs
	ReduceScatterTiles = "reduce_scatter_tiles" // ReduceScatterArgs
	ExchangeTiles      = "exchange_tiles"       // ExchangeArgs
	ExchangeTurns      = "exchange_turns"       // ExchangeArgs; all lengths of places other than 0 equal on all ranks, blocks of 64 threads at least
	ExchangeDirect     = "exchange_direct"      // DirectExchangeArgs
	BroadcastChain     = "broadcast_chain"      // ChainArgs
	AllReduceDirect    = "all_reduce_direct"    // DirectArgs

	ExchangeMail = "exchange_mail" // MailArgs; any grid, of which all blocks fit on the device
	MeetLetters  = "meet_letters"  // SwapArgs; one block
	SwapLetters  = "swap_letters"  // SwapArgs; blocks as of BroadcastLines for each message, and one

	CopyBytes   = "copy"         // CopyArgs; any grid
	CopyStrided = "copy_strided" // StridedArgs; any grid
	FillLines   = "fill"         // FillArgs; any grid

	Divide  = "divide"   // UnaryArgs; any grid
	Scale   = "scale"    // UnaryArgs; any grid
	FindNaN = "find_nan" // FindNaNArgs; any grid
)

var (
	localEntries = []Entry{
		{ReduceTwo, unsafe.Sizeof(ReduceArgs{})},
		{ReduceMany, unsafe.Sizeof(ReduceArgs{})},
	}
	packetEntries = []Entry{
		{AllReduceOneShot, unsafe.Sizeof(AllReduceArgs{})},
		{AllReduceTwoShot, unsafe.Sizeof(AllReduceArgs{})},
		{ReduceScatterPackets, unsafe.Sizeof(ReduceScatterArgs{})},
		{ReduceScatterEven, unsafe.Sizeof(EvenArgs{})},
	}
	tileEntries = []Entry{
		{AllReduceTiles, unsafe.Sizeof(AllReduceArgs{})},
		{ReduceScatterTiles, unsafe.Sizeof(ReduceScatterArgs{})},
	}
	rowEntries = []Entry{
		{AllReduceRows, unsafe.Sizeof(RowsArgs{})},
		{AllReduceRowsTwoShot, unsafe.Sizeof(RowsArgs{})},
	}
	lineEntries   = []Entry{{AllReduceLines, unsafe.Sizeof(LinesArgs{})}}
	followEntries = []Entry{{AllReduceFollow, unsafe.Sizeof(FollowArgs{})}}
	directEntries = []Entry{{AllReduceDirect, unsafe.Sizeof(DirectArgs{})}}
	moveEntries   = []Entry{
		{CopyBytes, unsafe.Sizeof(CopyArgs{})},
		{CopyStrided, unsafe.Sizeof(StridedArgs{})},
		{FillLines, unsafe.Sizeof(FillArgs{})},
		{ExchangePackets, unsafe.Sizeof(ExchangeArgs{})},
		{ExchangeEven, unsafe.Sizeof(EvenArgs{})},
		{BroadcastPackets, unsafe.Sizeof(BroadcastArgs{})},
		{ExchangeTiles, unsafe.Sizeof(ExchangeArgs{})},
		{ExchangeTurns, unsafe.Sizeof(ExchangeArgs{})},
		{ExchangeDirect, unsafe.Sizeof(DirectExchangeArgs{})},
		{BroadcastChain, unsafe.Sizeof(ChainArgs{})},
		{BroadcastRows, unsafe.Sizeof(RowChainArgs{})},
		{BroadcastLines, unsafe.Sizeof(LinesArgs{})},
		{MoveFollow, unsafe.Sizeof(FollowArgs{})},
		{ExchangeMail, unsafe.Sizeof(MailArgs{})},
		{MeetLetters, unsafe.Sizeof(SwapArgs{})},
		{SwapLetters, unsafe.Sizeof(SwapArgs{})},
	}
	unaryEntries = []Entry{ // Divide first: it is all that integers have
		{Divide, unsafe.Sizeof(UnaryArgs{})},
		{Scale, unsafe.Sizeof(UnaryArgs{})},
		{FindNaN, unsafe.Sizeof(FindNaNArgs{})},
	}
)

// UsesTiles reports whether an entry point leaves something in tile memory.
func UsesTiles(name string) bool {
	switch name {
	case AllReduceTiles, ReduceScatterTiles, ExchangeTiles, ExchangeTurns, BroadcastChain, AllReduceDirect:
		return true
	}
	return false
}

func familyEntries(f Family) []Entry {
	switch f {
	case LocalFamily:
		return localEntries
	case PacketFamily:
		return packetEntries
	case TileFamily:
		return tileEntries
	case RowFamily:
		return rowEntries
	case LineFamily:
		return lineEntries
	case FollowFamily:
		return followEntries
	case DirectFamily:
		return directEntries
	}
	panic("kernels/ptx: no family " + string(f))
}
