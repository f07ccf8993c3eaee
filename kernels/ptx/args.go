package ptx

// MaxRanks is the largest number of ranks in a group of the GPU kernels.
const MaxRanks = 8

// The arguments of the GPU kernels have the layout of the C++ structs of the same names in _gen/cuda/args.h. Words of eight bytes are
// device addresses, or lengths in bytes, unless their comments say something else.
//
// Arrays of MaxRanks with an entry for each rank are indexed by peer index. Entry d belongs to rank (Rank + d) mod Size, and
// entry 0 to this rank.

// GroupArgs tells the collectives about the group. It is the same in every launch of a group. The memory that it points to starts as
// zeros and belongs to the kernels.
type GroupArgs struct {
	LL         [MaxRanks]uint64 // each rank's LL memory, LLBytes long, as this device sees it
	Tiles      [MaxRanks]uint64 // each rank's tile memory, TileBytes long
	Flags      [MaxRanks]uint64 // each rank's flag words, FlagBytes long
	State      uint64           // this rank's counters, StateBytes long; no peer writes there
	Abort      uint64           // AbortBytes of mapped host memory
	Rank, Size uint32
	LLSlot     uint32 // bytes that LL memory has for one peer in one half, a multiple of 64
	TileSlot   uint32 // bytes of one tile at most, a multiple of 16
}

// LLBytes returns the length of a rank's LL memory.
func LLBytes(size, slot int) int { return 2 * (size - 1) * slot }

// TileBytes returns the length of a rank's tile memory for launches of at most so many blocks.
func TileBytes(size, slot, blocks int) int { return blocks * 2 * (size - 1) * tileDepth * slot }

// TilePieces returns how many pieces of tile memory a block has for one peer in a kernel with one-way tiles. Tile memory is
// for at most most blocks. The result is even, and each piece has tileDepth slots. One-way tiles are at most one piece long
// and have the same length on all ranks.
func TilePieces(most, blocks int) int { return 2 * (most / blocks) }

// FlagBytes and StateBytes return the lengths of a rank's flag words and counters for at most so many blocks.
func FlagBytes(blocks int) int { return blocks * 2 * MaxRanks * 4 }

// StateBytes is described with FlagBytes. Where the counters lie: LL has its last number at 0 and its blocks that have arrived at 24, LL128
// at 8 and 12. The kernels of a sendrecv have 16 and 20. The tiles of each block and pair are from 64 on.
func StateBytes(blocks int) int { return 64 + blocks*MaxRanks*4 }

// AbortedAt is where the word lies in a rank's counters that an aborted loop sets to Aborted. Kernels that find it so send nothing.
const (
	AbortedAt = 4
	Aborted   = 1 << 31
)

// LL128Chunk is the bytes of a warp chunk of LL128, which has LL128Data bytes of data.
const (
	LL128Chunk = 512
	LL128Data  = 480
)

// FoldThreads is the largest number of threads in a block of a reducing LL kernel.
const FoldThreads = 256

// LL128Bytes returns the length of a rank's LL128 memory.
func LL128Bytes(size, slot int) int { return 2 * (size - 1) * slot }

// SentinelWarps is the largest number of warps in a block of a sentinel kernel. Each warp has SentinelSpan bytes of a slot.
const (
	SentinelWarps = 16
	SentinelSpan  = 2048
)

// SentinelBytes returns the length of a rank's sentinel memory. CountBytes and CreditBytes return the lengths of its counts and of the
// credits that the next rank returns. All are for launches of at most so many blocks.
func SentinelBytes(slots, blocks int) int { return slots * blocks * SentinelWarps * SentinelSpan }

// CountBytes is described with SentinelBytes.
func CountBytes(blocks int) int { return blocks * SentinelWarps * 8 }

// CreditBytes is described with SentinelBytes.
func CreditBytes(blocks int) int { return blocks * SentinelWarps * 4 }

// MarkBytes returns the length of the marks at a rank for at most so many blocks.
func MarkBytes(blocks int) int { return blocks * MaxRanks * 4 }

// AbortBytes is the length of the abort words in host memory. Word 0 is the abort flag: when the host sets it, every waiting loop ends.
// Word 1+q is set by an aborted loop that waited for rank q. Word 1+MaxRanks+q is set by a kernel whose mark differs from rank q's;
// the kernel then sets the abort flag itself. After an abort the group's memory is worthless.
const AbortBytes = 4 * (1 + 2*MaxRanks)

// tileDepth is the number of tiles of one pair of ranks in flight.
const tileDepth = 4

// ReduceArgs sets Out to the fold of Sources inputs, in their order. Out may be one of them.
type ReduceArgs struct {
	Out     uint64
	In      [MaxRanks]uint64
	Bytes   uint64
	Sources uint32 // 2
	Divisor uint32 // above 1, it is the number of ranks of an average
	Sums    uint32 // 1: the last source is the sum of several ranks; 0: it is a rank's input, as the others are
	Partial uint32 // 1: the result is not yet the sum of all ranks
}

// AllReduceArgs folds every rank's In, in rank order, into every rank's Out, which may be In.
type AllReduceArgs struct {
	Group          GroupArgs
	In, Out, Bytes uint64
	Part           uint64 // bytes of a rank's part, a multiple of 16, the same on all ranks; the last parts may be short or empty
	Divisor        uint32 // as in ReduceArgs
	Tile           uint32 // bytes, a multiple of 16, at most TileSlot
}

// LL128Args is AllReduceArgs for LL128. LL128 memory starts as zeros and belongs to the kernels.
type LL128Args struct {
	Group          GroupArgs
	LL128          [MaxRanks]uint64 // each rank's LL128 memory, LL128Bytes long
	In, Out, Bytes uint64
	Part           uint64 // as in AllReduceArgs
	Divisor        uint32
	Slot           uint32 // bytes that LL128 memory has for one peer in one half, a multiple of LL128Chunk
}

// DirectArgs folds every rank's In, in rank order, into every rank's output. In may be this rank's output.
type DirectArgs struct {
	Group         GroupArgs
	Outs          [MaxRanks]uint64 // each rank's output as this device sees it, multiples of 16
	In, Bytes     uint64
	Part          uint64 // as in AllReduceArgs
	Marks         uint64 // where a rank's MarkBytes begin, in bytes from its flag words
	Divisor, Tile uint32
	Mark          uint32 // equal on all ranks; if it differs, the kernel stores nothing and sets abort words
	_             uint32
}

// ReduceScatterArgs folds part d of every rank's In into the Out of the rank at peer index d. A reduce to a root is the same
// with all parts but the root's empty. Out may be this rank's part of In.
type ReduceScatterArgs struct {
	Group         GroupArgs
	In, Out       uint64
	Offset, Bytes [MaxRanks]uint64 // where each part lies in In
	Divisor, Tile uint32
}

// EvenArgs is ReduceScatterArgs, or ExchangeArgs, of parts of one length. In, Out, Part and Step are multiples of 16.
type EvenArgs struct {
	Group   GroupArgs
	In, Out uint64 // of an exchange, Out has the parts of all ranks in order
	Part    uint64 // bytes, above 0
	Step    uint64 // from one rank's part in In to the next one's: 0 if all are sent the same
	Divisor uint32 // as in ReduceArgs
	_       uint32
}

// ExchangeArgs sends SendBytes[d] at Send[d] to the rank at peer index d, and receives RecvBytes[d] at Recv[d] from it. Peer
// index 0 is a copy. Both ranks of a pair know both lengths. Received memory must not overlap sent memory, but Recv[0] may be Send[0].
type ExchangeArgs struct {
	Group                            GroupArgs
	Send, SendBytes, Recv, RecvBytes [MaxRanks]uint64
	Tile                             uint32
	Pieces                           uint32 // of ExchangeRotation: pieces of tile memory of a block, as TilePieces returns
}

// DirectExchangeArgs stores SendBytes[d] at Send[d] to Recv[d], which lies in the output of the rank at peer index d.
type DirectExchangeArgs struct {
	Group                 GroupArgs
	Send, SendBytes, Recv [MaxRanks]uint64
	Marks                 uint64 // as in DirectArgs, and Mark
	Mark                  uint32
	_                     uint32
}

// BroadcastArgs sends the Bytes at the root's In to the Out of all other ranks.
type BroadcastArgs struct {
	Group   GroupArgs
	In, Out uint64
	Bytes   uint64 // 1 at least
	Root    uint32 // its peer index
	_       uint32
}

// ChainArgs hands the Bytes at the root's In on from rank to rank, into the Out of all other ranks.
type ChainArgs struct {
	Group         GroupArgs
	In, Out       uint64
	Next          uint64 // with Direct: Out of the next rank as this device sees it
	Bytes         uint64
	Marks         uint64 // as in DirectArgs, and Mark
	Before, After uint32 // peer indices of the ranks before and after this one, 0 for none
	Tile, Mark    uint32
	Direct        uint32 // 1: from output to output
	Pieces        uint32 // as in ExchangeArgs
}

// LL128ChainArgs is ChainArgs for LL128.
type LL128ChainArgs struct {
	Group         GroupArgs
	LL128         [MaxRanks]uint64 // as in LL128Args, and Slot
	In, Out       uint64           // as in ChainArgs, and Before and After
	Bytes         uint64           // 1 at least
	Before, After uint32
	Slot          uint32
	_             uint32
}

// SentinelArgs folds like AllReduceArgs, but in the order of the ring: part q from rank q on. In a broadcast it hands the Bytes at the
// root's In on to the rank after it, and so on. A broadcast between two ranks is a message. Sentinel memory starts full of
// sentinels, and counts and credits start as zeros. All of them belong to the kernels.
type SentinelArgs struct {
	Group                GroupArgs
	Memory, Next         uint64 // SentinelBytes of this rank, and of the next as this device sees them
	Counts               uint64 // CountBytes of this rank; no peer writes there
	Credits, PrevCredits uint64 // CreditBytes of this rank, and of the rank before
	In, Out, Bytes       uint64 // 1 at least
	Part                 uint64 // as in AllReduceArgs
	Sentinel             [4]uint32
	Slots                uint32 // Size at least
	Blocks               uint32 // that sentinel memory is for, each of SentinelWarps
	Divisor              uint32 // as in ReduceArgs
	Ends                 uint32 // of a broadcast: EndRoot, EndLast or 0
	Before, After        uint32 // peer indices of the previous rank, which sends lines to this one, and of the next
}

// Ends of a broadcast by the sentinel protocol.
const (
	EndRoot = 1
	EndLast = 2
)

// EagerArgs has messages by eager buffers. The messages that are sent come before those that are received.
type EagerArgs struct {
	State, Abort uint64 // as in GroupArgs
	Messages     [MostMessages]Message
}

// MostMessages is the number of messages in a launch. Unused messages have no Parts.
const MostMessages = 8

// Message sends or receives Bytes at At. It goes in Parts of Part bytes, with the rest in the last part, each through one of Slots slots
// of Slot bytes. The parts use the slots from First on, and slot 0 follows the last slot.
//
// A slot is free when its Free word is 1. It is full when its Arrived word is Code, or 1 for parts behind the first. The side that finds
// a word so resets it to 0. The first part's tags are MostCode-Code and Label.
//
// The blocks take the parts of all messages in turn. Messages of one peer and direction follow one another. If they have more parts
// than there are slots, the number of slots is a multiple of the blocks. So the same block always uses a slot.
type Message struct {
	At, Bytes           uint64 // any alignment
	Data                uint64 // the slots, on the receiver
	Arrived, Free, Tags uint64 // the words of slot 0, followed by those of the others: on the receiver, the sender, the receiver
	Slot, Part          uint32 // multiples of 16
	First, Slots        uint32
	Code, Label         uint32 // Code is at least 2 and below MostCode
	Peer                uint32
	Parts               uint32
	Receives            uint32 // 0 if the message is sent
}

// MostCode is above all codes of messages.
const MostCode = 1 << 30

// SendRecvArgs sends a message to a peer and receives one from it, each as BroadcastSentinel does. Before a message is carried, a
// rendezvous message (Sent or Received) describes it, and its receiver sets a clear-to-send word, which the sender resets.
// Rendezvous and then two launches of SendRecv do all that. The peer may run BroadcastSentinel instead, after the same words.
type SendRecvArgs struct {
	Out, In                      SentinelArgs
	Sent, Received               Message // the rendezvous messages; At, Bytes, Part and Slot are not used
	ClearToSend, PeerClearToSend uint64  // the word that the peer sets to ClearToSend or ClearToSendRecv, and that on the peer
	Carried                      uint64  // two words of this rank; no peer writes there
	Blocks                       uint32  // that carry Out; the blocks of In follow, and one block more
	Second                       uint32  // 1 in the second launch
}

// The values of a clear-to-send word: the receiver only receives, or it runs SendRecv with its sender.
const (
	ClearToSend = 1 + iota
	ClearToSendRecv
)

// FusedArgs moves Bytes round the ring in Steps. The first Folds of them fold like AllReduceArgs, but in the order of the ring. In step j
// this rank sends its part Rank-j and takes part Rank-j-1, modulo Size. A part goes in slices, which alternate between two slots.
//
// The kernel sends the Head of each slice, and the last line if it is not whole. Copy engines send the whole lines between. They send
// those of slice k when word k mod 2 at Go is 1, and their stream resets the word before. Slots start full of sentinels and end
// so, and words start as 0 and end so. An operation begins when all ranks have ended the one before.
//
// With Chain, one part is handed on from the root to the rank after it, and so on, in one step. Ins[0] and Outs[0] are the tensor then.
type FusedArgs struct {
	Group              GroupArgs
	Slots, Next        uint64           // this rank's slots, and those of the next as this device sees them
	Counts             uint64           // a word for each block, of this rank; no peer writes there
	Credit, PrevCredit uint64           // the word by which the next rank gives this one credit, and that at the rank before
	Go                 uint64           // two words of this rank
	Bytes              uint64           // of all parts
	Ins, Outs          [MaxRanks]uint64 // of parts; In of parts that are not folded is needed for this rank alone
	Part               uint64           // as in AllReduceArgs
	Slot, Slice        uint64           // from one slot to the other, and the longest slice, a multiple of 16
	Head               uint64           // a multiple of SentinelSpan, or longer than any slice
	Sentinel           [4]uint32
	Steps, Folds       uint32
	Divisor            uint32 // as in ReduceArgs
	Chain              uint32 // ChainRoot, ChainMiddle or ChainLast, or 0 in a ring
}

// The role of a rank in a chain.
const (
	ChainRoot = 1 + iota
	ChainMiddle
	ChainLast
)

// Slices returns the number of slices of a part.
func (a *FusedArgs) Slices() int { return int((a.Part + a.Slice - 1) / a.Slice) }

// A Slice of FusedArgs is some bytes of a part. The rank that sends it first reads it at In. After that it lies at Out.
type Slice struct{ In, Out, Bytes uint64 }

// Sent returns the k-th slice that this rank sends, Taken the k-th slice that it takes.
func (a *FusedArgs) Sent(k int) Slice { return a.slice(k, 0) }

// Taken is described with Sent.
func (a *FusedArgs) Taken(k int) Slice { return a.slice(k, 1) }

func (a *FusedArgs) slice(k, taken int) Slice {
	if at := uint64(k) * a.Slice; a.Chain != 0 {
		return Slice{In: a.Ins[0] + at, Out: a.Outs[0] + at, Bytes: min(a.Slice, a.Bytes-at)}
	}
	n, size := a.Slices(), int(a.Group.Size)
	d := (2*size - k/n - taken) % size
	part, at := uint64((int(a.Group.Rank)+d)%size)*a.Part, uint64(k%n)*a.Slice
	s := Slice{In: a.Ins[d] + at, Out: a.Outs[d] + at}
	if end := min(part+a.Part, a.Bytes); part+at < end {
		s.Bytes = min(a.Slice, end-part-at)
	}
	return s
}

// Own returns the number of slices that this rank sends from In.
func (a *FusedArgs) Own() int {
	switch a.Chain {
	case 0:
		return a.Slices()
	case ChainRoot:
		return int(a.Steps) * a.Slices()
	}
	return 0
}

// Copied returns the bytes that an engine sends of a slice of so many bytes: from one offset to another, which may be equal.
func (a *FusedArgs) Copied(bytes uint64) (from, to uint64) {
	from = min(a.Head, bytes)
	return from, max(bytes/16*16, from)
}

// CopyArgs copies Bytes from In to Out, which do not overlap.
type CopyArgs struct{ Out, In, Bytes uint64 }

// FillArgs stores Line in Lines lines of 16 bytes, from Out on. Out is a multiple of 16.
type FillArgs struct {
	Out, Lines uint64
	Line       [4]uint32
}

// UnaryArgs multiplies by a factor. Out may be In.
type UnaryArgs struct {
	Out, In, Count uint64 // Count in elements
	FactorAt       uint64 // address of one element, or 0 for Factor
	Factor         float64
}
